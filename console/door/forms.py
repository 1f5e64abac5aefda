"""The fields of a form, as this console's own pages send them, and no others."""

from typing import Final

from aiohttp import web
from multidict import MultiDictProxy

_FILES: Final = "multipart/form-data"


async def form_of(request: web.Request) -> MultiDictProxy[str]:
    """Return the fields of a form; a body of another type has none.

    Raises an HTTPException for what no page of this console sends: files, another charset, bytes
    that are no text.
    """
    if request.content_type == _FILES or (request.charset or "utf-8").lower() != "utf-8":
        raise web.HTTPUnsupportedMediaType(text="A form of this console has texts in UTF-8 alone.")
    try:
        fields = await request.post()
    except (UnicodeError, web.RequestPayloadError):
        raise web.HTTPBadRequest(text="The form cannot be read.") from None
    texts: MultiDictProxy[str] = fields  # type: ignore[assignment]  # only files are none
    return texts
