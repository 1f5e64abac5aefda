"""The first page: rates as they are, brokers, and what is wrong with them."""

from typing import Any, Final

from aiohttp import web

from aerobee.client.cluster.routes import MASTER_ID
from aerobee.console.page import ConsolePage, PageRoute, Visit
from aerobee.console.sight import BrokerSight, total


async def show(visit: Visit) -> web.StreamResponse:
    """Show the whole page."""
    await visit.sight.look()
    return visit.page("overview.html", **_seen(visit))


async def live(visit: Visit) -> web.StreamResponse:
    """Show what changes, in the place of what stands there."""
    await visit.sight.look()
    return visit.page("_overview_live.html", **_seen(visit))


async def history(visit: Visit) -> web.StreamResponse:
    """Return the rates of the last ten minutes as uPlot takes them: seconds, in, out."""
    await visit.sight.look()
    rates = list(visit.sight.rates)
    columns = (
        [sample.at_ms / 1000 for sample in rates],
        [sample.put_rate for sample in rates],
        [sample.get_rate for sample in rates],
    )
    return web.json_response({"columns": columns})


def _seen(visit: Visit) -> dict[str, Any]:
    brokers = sorted(visit.sight.brokers.values(), key=lambda each: each.entry)
    masters = [each for each in brokers if each.entry.broker_id == MASTER_ID]
    return {
        "brokers": brokers,
        "put_rate": total(each.put_rate for each in masters),
        "get_rate": total(each.get_rate for each in masters),
        "silent": sum(each.error is not None for each in brokers),
        "put_today": total(_today(each, "msgPutTotalToday") for each in masters),
        "get_today": total(_today(each, "msgGetTotalToday") for each in masters),
        "trouble": visit.sight.trouble,
    }


def _today(broker: BrokerSight, key: str) -> int | None:
    """Return what a broker counted since midnight; None where it does not tell."""
    now, morning = broker.number(f"{key}Now"), broker.number(f"{key}Morning")
    if not broker.answers or now is None or morning is None:
        return None
    return now - morning


PAGE: Final = ConsolePage(
    "Overview",
    "/",
    (
        PageRoute("GET", "/", show),
        PageRoute("GET", "/overview/live", live),
        PageRoute("GET", "/overview/history", history),
    ),
)
