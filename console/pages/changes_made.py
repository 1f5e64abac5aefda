"""What was changed by this console since it was started."""

from typing import Final

from aiohttp import web

from aerobee.console.listing import ListPage, matching
from aerobee.console.page import ConsolePage, PageRoute, Visit
from aerobee.console.roles import ConsoleRole


async def show(visit: Visit) -> web.StreamResponse:
    """List the changes, the newest first."""
    wanted = visit.query("q")
    kept = list(reversed(visit.frame.changes.kept))
    if wanted:
        kept = [change for change in kept if matching([f"{change.by} {change.what}"], wanted)]
    page = ListPage(kept, visit.number("page", 1, 1, 1 << 31), "/changes", {"q": wanted})
    return visit.page("changes_made.html", list=page, wanted=wanted)


PAGE: Final = ConsolePage(
    "Changes", "/changes", (PageRoute("GET", "/changes", show),), ConsoleRole.ADMIN
)
