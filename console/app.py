"""The console as an aiohttp application: the pages of one list, behind one door.

A page is a module in `pages/` with a `ConsolePage`, and a line in `pages/listed.py`.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler

from aerobee.console.advice import advice, status_of
from aerobee.console.assets import PREFIX, Assets
from aerobee.console.changes import Changes
from aerobee.console.door.entering import Door
from aerobee.console.door.guard import CHANGING, HTMX, is_meant, secure
from aerobee.console.door.rationing import Rations
from aerobee.console.door.sessions import Session
from aerobee.console.page import ConsolePage, PageFrame, PageRoute, Visit
from aerobee.console.pages.listed import PAGES
from aerobee.console.rendering import make_environment
from aerobee.console.roles import ConsoleRole
from aerobee.console.settings import ConsoleSettings
from aerobee.console.sights import Sights
from aerobee.remoting.errors import Unavailable
from aerobee.remoting.net.tasks import Tasks

log = logging.getLogger(__name__)

FORM_BYTES_MAX: Final = 6 << 20
"""Of what is posted; a message that is published is part of a form."""
REQUEST_S: Final = 45.0
"""So long a request may take from its head to its answer, whoever is slow."""
SWEEP_MS: Final = 60_000
"""So often it is asked whether who is logged in may still be."""
ASSET_AGE_S: Final = 365 * 24 * 3600


class Console:
    """One console: its pages, its viewers, and what it sees of the cluster."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self.settings = settings
        self.sights = Sights(settings)
        self.assets = Assets()
        self._templates = make_environment(self.assets)
        self.door = Door(settings, self.sights, self.render)
        self._frame = PageFrame(self.render, Changes(), settings.console_behind_tls)
        self._requests = Rations(burst=300, per_s=50)
        self._costly = Rations(burst=20, per_s=2)
        self._tasks = Tasks()

    def application(self) -> web.Application:
        """Return what answers; `close` is for afterwards."""
        app = web.Application(client_max_size=FORM_BYTES_MAX, middlewares=[self._answer])
        app.on_startup.append(self._begin)
        app.router.add_get("/healthz", _healthz)
        app.router.add_get(f"{PREFIX}/{{digest}}/{{name}}", self._asset)
        app.router.add_get("/login", self.door.show)
        app.router.add_post("/login", self.door.enter)
        app.router.add_post("/logout", self.door.leave)
        for page in PAGES:
            for route in page.routes:
                app.router.add_route(route.method, route.path, self._handler(page, route))
        return app

    async def close(self) -> None:
        """Close every connection to the cluster."""
        await self._tasks.close()
        await self.sights.close()

    async def _begin(self, _: web.Application) -> None:
        self._tasks.every(SWEEP_MS, self.door.sweep, "console sweep")

    def render(
        self, template: str, values: Mapping[str, Any], session: Session | None = None
    ) -> str:
        """Render a template; `said` is what the viewer is told once."""
        said: list[str] = []
        if session is not None and not template.rpartition("/")[2].startswith("_"):
            said, session.said = session.said, []
        here = values.get("here", "")
        shown = [
            (page, page.is_at(here))
            for page in PAGES
            if session and page.path and session.may(page.role)
        ]
        return self._templates.get_template(template).render(
            {**values, "session": session, "said": said, "pages": shown, "roles": ConsoleRole}
        )

    def _handler(self, page: ConsolePage, route: PageRoute) -> Handler:
        role = max(page.role, route.role)

        async def handle(request: web.Request) -> web.StreamResponse:
            session = self.door.session(request)
            if session is None:
                return self.door.turn_away(request)
            try:
                await self._check(request, session, role, costly=route.costly)
                try:
                    response = await route.handler(self._visit(request, session))
                finally:  # what failed may have been done in part
                    if request.method in CHANGING:
                        self.sights.forget()
            except Exception as error:  # noqa: BLE001  one page that fails must not end the others
                response = self._failed(request, error, session)
            self.door.remember(request, response, session)
            return response

        return handle

    async def _check(
        self, request: web.Request, session: Session, role: ConsoleRole, *, costly: bool
    ) -> None:
        """Raise an HTTPException where a viewer may not do this, or not now."""
        if not session.may(role):
            raise web.HTTPForbidden(
                text=f"This takes the role {role.word}; {session.viewer.name} is"
                f" {session.viewer.role.word}."
            )
        counted = self._counted_as(session)
        wait_s = self._requests.take(counted)
        if costly:
            wait_s = max(wait_s, self._costly.take(counted))
        if wait_s:
            raise web.HTTPTooManyRequests(
                text="Too many requests of one viewer: wait a moment.",
                headers={"Retry-After": str(int(wait_s) + 1)},
            )
        if request.method in CHANGING and not await is_meant(request, session):
            raise web.HTTPForbidden(
                text="This form is not of your session, or of another page: load the page anew and"
                " try again."
            )

    def _counted_as(self, session: Session) -> str:
        """Return who has a viewer's rations: he, in however many sessions.

        Whoever keeps no cookie has many. The one password of `admin` may be several people's.
        """
        viewer = session.viewer
        is_shared = not viewer.is_local and viewer.credentials == self.sights.own
        return session.token if is_shared else viewer.name

    def _visit(self, request: web.Request, session: Session) -> Visit:
        credentials = session.viewer.credentials
        return Visit(
            request,
            session,
            self.sights.reading(credentials),
            self.sights.of(credentials).admin,
            self._frame,
        )

    @web.middleware
    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer whatever happens, with the headers that every answer has."""
        try:
            async with asyncio.timeout(REQUEST_S):
                response = await handler(request)
        except TimeoutError:
            late = Unavailable(f"It was not done within {REQUEST_S:g} s, and may be done later.")
            response = self._failed(request, late, self.door.known(request))
        except Exception as error:  # noqa: BLE001  likewise
            response = self._failed(request, error, self.door.known(request))
        secure(response, has_tls=self.settings.has_tls)
        return response

    def _failed(
        self, request: web.Request, error: Exception, session: Session | None
    ) -> web.StreamResponse:
        """Say what went wrong and what to do, as a page or as the part of one that was wanted."""
        if isinstance(error, web.HTTPException) and error.status < 400:
            return error
        status, text = status_of(error), str(error)
        if isinstance(error, web.HTTPException):
            text = error.text or error.reason
        elif status == 500:
            log.error("console_fault path=%r", request.path, exc_info=error)
            text = "The console failed; its log has the reason."
        is_part = request.headers.get(HTMX) == "true"
        is_local = session is not None and session.viewer.is_local
        values = {"status": status, "text": text, "advice": advice(error, is_local=is_local)}
        body = self.render("_error.html" if is_part else "error.html", values, session)
        answer = web.Response(text=body, status=status, content_type="text/html")
        if isinstance(error, web.HTTPException) and "Retry-After" in error.headers:
            answer.headers["Retry-After"] = error.headers["Retry-After"]
        return answer

    async def _asset(self, request: web.Request) -> web.Response:
        asset = self.assets.find(request.match_info["digest"], request.match_info["name"])
        if asset is None:
            raise web.HTTPNotFound(text="There is no such file, or a newer one: load the page anew")
        return web.Response(
            body=asset.content,
            content_type=asset.content_type,
            charset="utf-8" if asset.content_type.startswith("text/") else None,
            headers={"Cache-Control": f"public, max-age={ASSET_AGE_S}, immutable"},
        )


async def _healthz(request: web.Request) -> web.Response:
    return web.Response(text="ok\n")
