"""A message's body as a person reads it: text, JSON or bytes, and never more than fits."""

import codecs
from itertools import accumulate
from typing import Final

import msgspec

TEXT, JSON, HEX = "text", "json", "hex"
TEXT_CHARACTERS_MAX: Final = 100_000
JSON_BYTES_MAX: Final = 1 << 20
"""A larger body is shown as text: it would have to be read whole to be written anew."""
INDENTED_BYTES_MAX: Final = 8 << 20
"""What would be longer when it is indented is shown as text: deep JSON grows a thousandfold."""
HEX_BYTES_MAX: Final = 16 << 10
HEX_ROW: Final = 16
SNIPPET_CHARACTERS: Final = 120
INDENT: Final = 2
_OPENING: Final = b"[{"
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_KEPT: Final = frozenset("\n\t")
_decoder: Final = codecs.getincrementaldecoder("utf-8")  # the beginning may end within a sign


class ShownBody(msgspec.Struct, frozen=True):
    """A body in one form; `cut` says that it is longer than what is shown.

    `forms` are those that it can be shown in.
    """

    form: str
    text: str
    cut: bool
    forms: tuple[str, ...]


def shown_body(body: bytes, wanted: str = "") -> ShownBody:
    """Return a body as it was asked for, or as it seems to be meant.

    JSON is indented and otherwise as it was written, to the last digit. Signs that a reader cannot
    see, or that turn the direction of a line, are written as escapes.
    """
    text = _text(body)
    pretty = _pretty(body) if text is not None else None
    forms = tuple(
        form
        for form, there in ((JSON, pretty is not None), (TEXT, text is not None), (HEX, True))
        if there
    )
    form = wanted if wanted in forms else forms[0]
    if form == HEX or text is None:
        return ShownBody(HEX, _hex(body[:HEX_BYTES_MAX]), len(body) > HEX_BYTES_MAX, forms)
    whole = pretty if form == JSON and pretty is not None else text
    return ShownBody(
        form, visible(whole[:TEXT_CHARACTERS_MAX]), len(whole) > TEXT_CHARACTERS_MAX, forms
    )


def snippet(body: bytes) -> str:
    """Return the beginning of a body on one line; what is no text is written in hex."""
    try:
        text = _decoder().decode(body[: SNIPPET_CHARACTERS * 4])
    except UnicodeDecodeError:
        return body[: SNIPPET_CHARACTERS // 3].hex(" ")
    return visible(" ".join(text[:SNIPPET_CHARACTERS].split()))


def visible(text: str) -> str:
    """Write signs that nobody sees as escapes: `\\x00`, `\\u202e`."""
    if text.isprintable():
        return text
    return "".join(
        each if each in _KEPT or each.isprintable() else ascii(each)[1:-1] for each in text
    )


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _pretty(body: bytes) -> str | None:
    """Return JSON indented, None for what is none; its numbers and texts are left as they are."""
    start = body.lstrip()[:1]
    if len(body) > JSON_BYTES_MAX or start not in (b"{", b"["):
        return None
    try:
        msgspec.json.decode(body)
        if _indented_bytes(body) > INDENTED_BYTES_MAX:
            return None
        return msgspec.json.format(body, indent=INDENT).decode()
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _indented_bytes(body: bytes) -> int:
    """Return how long JSON is indented at most; brackets in texts count as well."""
    brackets = body.translate(None, _NO_BRACKETS)
    depth = max(accumulate(1 if each in _OPENING else -1 for each in brackets), default=0)
    lines = body.count(b",") + len(brackets)
    return len(body) + lines * (depth * INDENT + 1)


def _hex(body: bytes) -> str:
    """Write rows of 16 bytes: where they begin, the bytes, and those that are ASCII."""
    rows = []
    for at in range(0, len(body), HEX_ROW):
        row = body[at : at + HEX_ROW]
        signs = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        halves = f"{row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}"
        rows.append(f"{at:08x}  {halves}  {signs}")
    return "\n".join(rows)
