"""What a page is: its routes, who may use them, and what their handlers are given."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from aiohttp import web
from multidict import MultiDictProxy

from aerobee.console.changes import Changes
from aerobee.console.door.forms import form_of
from aerobee.console.door.guard import HTMX, caller
from aerobee.console.door.sessions import Session
from aerobee.console.reach import ViewerAdmin
from aerobee.console.roles import ConsoleRole
from aerobee.console.sight import Sight

SAID_MAX: Final = 20
"""What a viewer is told on his next page, the last of it."""


class PageRoute(NamedTuple):
    """An address of a page: who may use it, and what answers.

    `costly` ones ask brokers for much, and are rationed more strictly. Of POST the token of the
    form was checked when the handler is called.
    """

    method: str
    path: str
    handler: Callable[["Visit"], Awaitable[web.StreamResponse]]
    role: ConsoleRole = ConsoleRole.READER
    costly: bool = False


class ConsolePage(NamedTuple):
    """A page, or several with one thought: `path` is where the navigation leads, "" for nowhere.

    The first word of a page's addresses is its own: `/topics`, `/topics/{topic}`.
    """

    title: str
    path: str
    routes: tuple[PageRoute, ...]
    role: ConsoleRole = ConsoleRole.READER

    def is_at(self, path: str) -> bool:
        """Whether an address is this page's in the navigation, or below it."""
        return path == self.path or (self.path != "/" and path.startswith(f"{self.path}/"))


class PageFrame(NamedTuple):
    """What a console does for its pages: renders them, and keeps what was changed.

    `behind_proxy` says that a proxy tells from which address somebody comes.
    """

    render: Callable[[str, Mapping[str, Any], Session], str]
    changes: Changes
    behind_proxy: bool = False


class Visit:
    """One request of a viewer: what he asks, what he may, what he is answered with.

        async def show(visit: Visit) -> web.StreamResponse:
            topics = await visit.sight.topics()
            return visit.page("topics/all.html", topics=topics)

    `sight` are the answers of brokers, which viewers share; `admin` asks and changes by the
    viewer's own right, and is shared with nobody.
    """

    def __init__(
        self,
        request: web.Request,
        session: Session,
        sight: Sight,
        admin: ViewerAdmin,
        frame: PageFrame,
    ) -> None:
        self.request = request
        self.session = session
        self.sight = sight
        self.admin = admin
        self.frame = frame

    @property
    def role(self) -> ConsoleRole:
        """What the viewer may do."""
        return self.session.viewer.role

    @property
    def is_fragment(self) -> bool:
        """Whether a part of a page is wanted (htmx), not a whole one."""
        return self.request.headers.get(HTMX) == "true"

    def path(self, name: str) -> str:
        """Return a part of the address, `{name}` in the route."""
        return self.request.match_info[name]

    def query(self, name: str, default: str = "") -> str:
        """Return a parameter of the address, without blanks around it, 1000 characters at most."""
        return self.request.query.get(name, default).strip()[:1000]

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Return a parameter that is a number, moved into its bounds; `default` for none."""
        text = self.query(name)
        if not (text.isascii() and text.isdecimal() and len(text) < 19):
            return default
        return min(max(int(text), least), most)

    async def form(self) -> Mapping[str, str]:
        """Return the fields of the form, of several with one name the last."""
        return dict((await self.fields()).items())

    async def fields(self) -> MultiDictProxy[str]:
        """Return the fields of the form, of which several may have one name."""
        return await form_of(self.request)

    def page(self, template: str, status: int = 200, **values: Any) -> web.Response:
        """Answer with a template, a whole page or, where it is written as one, a part."""
        text = self.frame.render(
            template, {**values, "visit": self, "here": self.request.path}, self.session
        )
        return web.Response(text=text, status=status, content_type="text/html")

    def changed(self, what: str) -> None:
        """Say that something was changed: to the log, the page of changes, and the viewer."""
        remote = caller(self.request, behind_proxy=self.frame.behind_proxy)
        self.frame.changes.note(self.session.viewer.name, remote, what)
        self._say(f"{what[:1].upper()}{what[1:]}.")

    def _say(self, text: str) -> None:
        self.session.said.append(text)
        del self.session.said[:-SAID_MAX]  # whoever changes much may never look at a page

    @staticmethod
    def quoted(name: str) -> str:
        """Return a name as a part of an address."""
        return quote(name, safe="")

    def go(self, path: str, said: str = "", **query: str) -> web.Response:
        """Lead to a page after a change; it shows what was `said`, once."""
        if said:
            self._say(said)
        target = f"{path}?{urlencode(query)}" if query else path
        return web.Response(status=303, headers={"Location": target})
