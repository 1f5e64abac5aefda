"""What every request passes: who it is from, whether he meant it, and whether he may."""

import hmac
import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

from aiohttp import HttpVersion11, web

from aerobee.console.door.forms import form_of
from aerobee.console.door.sessions import Session

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)
"""Nothing but what this server gives, and no script or style that stands in a page."""
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "aerobee",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
HTMX: Final = "HX-Request"
"""The header of who wants a part of a page."""
CSRF: Final = "csrf"
CSRF_HEADER: Final = "X-CSRF-Token"
CHANGING: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_FORWARDED: Final = frozenset({"forwarded", "x-real-ip", "via"})
_FORWARDED_PREFIX: Final = "x-forwarded-"
_LOCAL_PATH: Final = re.compile(r"/(?![/\\])[^\x00-\x20\\]*")


def secure(response: web.StreamResponse, *, has_tls: bool) -> None:
    """Tell browsers what they may do with an answer."""
    for name, value in HEADERS.items():
        response.headers[name] = value
    if has_tls:
        response.headers["Strict-Transport-Security"] = "max-age=31536000"
    response.headers.setdefault("Cache-Control", "no-store")


def is_forwarded(request: web.Request) -> bool:
    """Whether a proxy says that it brings somebody else's request, or speaks as only they do."""
    if request.version < HttpVersion11:
        return True
    names = (name.lower() for name in request.headers)
    return any(name in _FORWARDED or name.startswith(_FORWARDED_PREFIX) for name in names)


def caller(request: web.Request, *, behind_proxy: bool) -> str:
    """Return the address that somebody comes from; behind a proxy that which it has added last."""
    forwarded = ",".join(request.headers.getall("X-Forwarded-For", [])) if behind_proxy else ""
    return _address(forwarded.rpartition(",")[2].strip()) or request.remote or ""


def neighbours(address: str) -> str:
    """Return by what an address is counted: of IPv6 by its /64, all of which one host may have."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 4 or found.ipv4_mapped is not None:
        return str(found if found.version == 4 else found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))


def _address(text: str) -> str:
    """Return the address that a proxy wrote, without a port; "" for what is none."""
    host = text
    if text.startswith("["):
        host = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        host = text.partition(":")[0]
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return ""


def called(request: web.Request) -> str:
    """Return the name, and port, by which a browser calls this server; "" where it says none."""
    return request.headers.get("Host", "")


def is_foreign(request: web.Request) -> bool:
    """Whether a browser says that a page of elsewhere sends this."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = request.headers.get("Origin")
    return origin is not None and _place_of(origin) != called(request)


def _place_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def is_embedded(request: web.Request) -> bool:
    """Whether a page of elsewhere has this fetched by itself, as an image or a frame of its own."""
    return is_foreign(request) and request.headers.get("Sec-Fetch-Dest", "document") != "document"


async def is_meant(request: web.Request, session: Session) -> bool:
    """Whether a change comes from a form, or a script, of a page that this session was given."""
    if is_foreign(request):
        return False
    token = request.headers.get(CSRF_HEADER)
    if token is None:
        token = (await form_of(request)).get(CSRF, "")
    return hmac.compare_digest(token.encode("utf-8", "replace"), session.csrf.encode())


def local_path(text: str) -> str:
    """Return where to go on after a login: a path of this server, the first page for all else."""
    return text if _LOCAL_PATH.fullmatch(text) else "/"


def cookie_name(request: web.Request, *, has_tls: bool) -> str:
    """Name the cookie: consoles of one host share their cookies, whatever their ports are."""
    place = request.get_extra_info("sockname")
    port = place[1] if isinstance(place, tuple) else 0
    return f"{'__Host-' if has_tls else ''}aerobee-console-{port}"
