"""Brokers: what they say of themselves, their disks, and whether they take messages."""

from typing import Final

from aiohttp import web

from aerobee.client.errors import InvalidUse
from aerobee.console.page import ConsolePage, PageRoute, Visit
from aerobee.console.roles import ConsoleRole
from aerobee.console.sight import BrokerSight

DISK_PREFIX: Final = "commitLogDiskRatio_"


async def show(visit: Visit) -> web.StreamResponse:
    """List the brokers."""
    await visit.sight.look()
    brokers = sorted(visit.sight.brokers.values(), key=lambda each: each.entry)
    template = "brokers/_live.html" if visit.is_fragment else "brokers/all.html"
    return visit.page(template, brokers=brokers, trouble=visit.sight.trouble)


async def describe(visit: Visit) -> web.StreamResponse:
    """Show everything that the brokers of a name say."""
    await visit.sight.look()
    name, wanted = visit.path("broker"), visit.query("q").casefold()
    seen = _named(visit, name)
    states = [
        (
            each,
            [
                (key, value)
                for key, value in sorted(each.state.items(), key=lambda item: item[0].lower())
                if wanted in key.casefold()
            ],
            {
                key.removeprefix(DISK_PREFIX): value
                for key, value in each.state.items()
                if key.startswith(DISK_PREFIX)
            },
        )
        for each in seen
    ]
    return visit.page("brokers/one.html", name=name, states=states, wanted=visit.query("q"))


async def wipe(visit: Visit) -> web.StreamResponse:
    """Let nameservers say that a broker takes no messages."""
    return await _permission(visit, takes=False)


async def allow(visit: Visit) -> web.StreamResponse:
    """Let nameservers say that a broker takes messages."""
    return await _permission(visit, takes=True)


async def _permission(visit: Visit, *, takes: bool) -> web.StreamResponse:
    name = visit.path("broker")
    broker = visit.admin.broker
    change = broker.add_write_permission if takes else broker.wipe_write_permission
    topics = max((await change(name)).values(), default=0)
    what = "take messages again" if takes else "take no messages until it registers a topic anew"
    visit.changed(f"{topics} topics of {name} {what}")
    return visit.go(f"/brokers/{visit.quoted(name)}")


def _named(visit: Visit, name: str) -> list[BrokerSight]:
    seen = [each for each in visit.sight.brokers.values() if each.entry.name == name]
    if not seen:
        known = ", ".join(sorted({each.entry.name for each in visit.sight.brokers.values()}))
        raise InvalidUse(f"No broker {name!r} is registered; there is {known or 'none at all'}.")
    return sorted(seen, key=lambda each: each.entry)


PAGE: Final = ConsolePage(
    "Brokers",
    "/brokers",
    (
        PageRoute("GET", "/brokers", show),
        PageRoute("GET", "/brokers/{broker}", describe),
        PageRoute("POST", "/brokers/{broker}/wipe", wipe, ConsoleRole.ADMIN),
        PageRoute("POST", "/brokers/{broker}/allow", allow, ConsoleRole.ADMIN),
    ),
)
