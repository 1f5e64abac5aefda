"""Logging in and out: the pages that who is not logged in may see, and the cookie."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web

from aerobee.console.door.forms import form_of
from aerobee.console.door.guard import (
    HTMX,
    called,
    caller,
    cookie_name,
    is_embedded,
    is_foreign,
    is_forwarded,
    is_meant,
    local_path,
    neighbours,
)
from aerobee.console.door.logins import LoginRefused, Logins
from aerobee.console.door.rationing import Rations
from aerobee.console.door.sessions import LIFE_S, Session, Sessions, Viewer
from aerobee.console.settings import ConsoleSettings
from aerobee.console.sights import Sights
from aerobee.remoting.errors import AerobeeError

log = logging.getLogger(__name__)

LOGIN_BYTES_MAX: Final = 16 << 10
_EVERYBODY: Final = ""


class Door:
    """Lets viewers in and out.

    Whoever tries passwords is slowed, by his address and all together, before a broker is asked:
    to brokers all of them come from the console's own address.
    """

    def __init__(
        self,
        settings: ConsoleSettings,
        sights: Sights,
        render: Callable[[str, Mapping[str, Any]], str],
    ) -> None:
        self._has_tls = settings.has_tls
        self._behind_proxy = settings.console_behind_tls
        self._sights = sights
        self._render = render
        self._logins = Logins(settings, sights)
        self._sessions = Sessions()
        self._of_address = Rations(burst=10, per_s=1 / 6)
        self._of_all = Rations(burst=60, per_s=2)

    def session(self, request: web.Request) -> Session | None:
        """Return whose request it is; who comes from this machine gets a session unasked.

        What a page of elsewhere has fetched is nobody's: it could ask brokers for much.
        """
        is_get = request.method in ("GET", "HEAD")
        if is_get and is_embedded(request):
            return None
        found = self.known(request)
        if found is None and is_get:
            local = self._local(request)
            found = self._sessions.begin(local) if local is not None else None
        return found

    def known(self, request: web.Request) -> Session | None:
        """Return the session of a request's cookie, None where it has ended."""
        token = request.cookies.get(cookie_name(request, has_tls=self._has_tls), "")
        found = self._sessions.find(token, is_click=HTMX not in request.headers)
        if found is not None and found.viewer.is_local and self._local(request) is None:
            return None
        return found

    def remember(
        self, request: web.Request, response: web.StreamResponse, session: Session
    ) -> None:
        """Have the browser keep a session's cookie, unless it has it."""
        name = cookie_name(request, has_tls=self._has_tls)
        if request.cookies.get(name) == session.token:
            return
        response.set_cookie(
            name,
            session.token,
            max_age=int(LIFE_S),
            path="/",
            secure=self._has_tls,
            httponly=True,
            samesite="Strict",
        )

    def turn_away(self, request: web.Request) -> web.Response:
        """Lead to the login; a part of a page has the whole page lead there."""
        is_get = request.method in ("GET", "HEAD")
        target = f"/login?{urlencode({'next': request.path_qs if is_get else '/'})}"
        if HTMX in request.headers:
            return web.Response(status=401, headers={"HX-Redirect": "/login"})
        return web.Response(status=303, headers={"Location": target})

    async def show(self, request: web.Request) -> web.Response:
        """Show the form."""
        return self._form(request, request.query.get("next", "/"))

    async def enter(self, request: web.Request) -> web.Response:
        """Let somebody in, or say why not; a session from before ends."""
        if (request.content_length or LOGIN_BYTES_MAX + 1) > LOGIN_BYTES_MAX:
            raise web.HTTPRequestEntityTooLarge(LOGIN_BYTES_MAX, request.content_length or 0)
        if is_foreign(request):
            raise web.HTTPForbidden(text="Log in by the form of this console.")
        fields = await form_of(request)
        address = caller(request, behind_proxy=self._behind_proxy)
        wait_s = self._of_address.take(neighbours(address)) or self._of_all.take(_EVERYBODY)
        if wait_s:
            raise web.HTTPTooManyRequests(
                text=f"Too many logins: try again in {int(wait_s) + 1} s.",
                headers={"Retry-After": str(int(wait_s) + 1)},
            )
        name, secret = fields.get("name", "").strip(), fields.get("password", "")
        target = fields.get("next", "/")
        try:
            viewer = await self._logins.viewer(name, secret)
        except LoginRefused as error:
            log.warning("console_login_refused remote=%s", address)
            return self._form(request, target, str(error), 403)
        except AerobeeError as error:
            return self._form(request, target, str(error), 502)
        self._sessions.end(request.cookies.get(cookie_name(request, has_tls=self._has_tls), ""))
        session = self._sessions.begin(viewer)
        await self._forget_secrets()
        log.info("console_login user=%r role=%s remote=%s", name, viewer.role.word, address)
        response = web.Response(status=303, headers={"Location": local_path(target)})
        self.remember(request, response, session)
        return response

    async def leave(self, request: web.Request) -> web.Response:
        """End a session."""
        name = cookie_name(request, has_tls=self._has_tls)
        session = self._sessions.find(request.cookies.get(name, ""), is_click=True)
        if session is not None and not await is_meant(request, session):
            raise web.HTTPForbidden(text="This form is not of your session.")
        if session is not None:
            self._sessions.end(session.token)
            await self._forget_secrets()
        response = web.Response(status=303, headers={"Location": "/login"})
        response.del_cookie(name, path="/", secure=self._has_tls)
        return response

    async def sweep(self) -> None:
        """Forget who has gone; ask brokers whether who is here may still be, and as what.

        What the console looks at in its own name it would show to a user who was shut out, too.
        """
        self._sessions.sweep()
        for viewer in self._sessions.viewers():
            if viewer.credentials in (None, self._sights.own):
                continue
            name, secret = viewer.credentials.access_key, viewer.credentials.secret_key
            try:
                self._sessions.change(viewer, await self._logins.viewer(name, secret))
            except LoginRefused:
                log.warning("console_session_ended user=%r: brokers refuse him now", name)
                self._sessions.change(viewer, None)
            except AerobeeError:
                continue  # who cannot be asked refuses nobody
        await self._forget_secrets()

    async def _forget_secrets(self) -> None:
        await self._sights.keep({each.credentials for each in self._sessions.viewers()})

    def _form(
        self, request: web.Request, target: str, trouble: str = "", status: int = 200
    ) -> web.Response:
        values = {
            "next": local_path(target),
            "trouble": trouble,
            "is_plain": not self._has_tls and not self._logins.is_on_loopback,
            "lets_machine_in": self._logins.lets_machine_in,
        }
        text = self._render("login.html", values)
        return web.Response(text=text, status=status, content_type="text/html")

    def _local(self, request: web.Request) -> Viewer | None:
        return self._logins.local(
            request.remote, called(request), is_forwarded=is_forwarded(request)
        )
