"""Consumer groups: the list with their lag, one of them with queues, members and settings."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from aerobee.admin.calls import Answers
from aerobee.admin.groups import GroupDescription, is_own_group
from aerobee.client.cluster.directory import BrokerEntry
from aerobee.client.cluster.routes import MASTER_ID
from aerobee.client.errors import InvalidUse
from aerobee.console.listing import ListPage, in_time, matching
from aerobee.console.page import ConsolePage, PageRoute, Visit
from aerobee.console.roles import ConsoleRole
from aerobee.console.sight import Sight
from aerobee.remoting.bodies import SubscriptionGroupConfig
from aerobee.remoting.errors import AerobeeError

FIGURES_AGE_S: Final = 2.0
GROUP_ROWS: Final = 25
QUEUE_ROWS: Final = 100
OWNER_CHANGES_SHOWN: Final = 20
MEMBERS_SHOWN_MAX: Final = 200
SORTED_MAX: Final = 200
"""Up to so many groups are shown by their lag, which has to be asked for each of them."""

GroupConfigs = Answers[dict[str, SubscriptionGroupConfig]]


class GroupRow(msgspec.Struct, frozen=True):
    """A line of the list; figures are None where not every broker answered in time."""

    name: str
    brokers: list[str]
    lag: int | None = None
    members: int | None = None
    pulls_per_second: float | None = None


async def show(visit: Visit) -> web.StreamResponse:
    """List the groups, a page at a time; few of them by their lag."""
    wanted, own = visit.query("q"), visit.query("own") == "1"
    answers = await visit.sight.group_configs()
    known = {group for found in answers.found.values() for group in found}
    groups = sorted(group for group in known if own or not is_own_group(group))
    found = matching(groups, wanted)
    is_sorted = len(found) <= SORTED_MAX and visit.query("sort", "lag") == "lag"
    rows: list[GroupRow] = []
    if is_sorted:
        rows = await _rows(visit.sight, answers, found)
        rows.sort(key=lambda row: (-(row.lag or 0), row.name))
        found = [row.name for row in rows]
    query = {"q": wanted, "own": "1" if own else "", "sort": visit.query("sort")}
    page = ListPage(found, visit.number("page", 1, 1, 1 << 31), "/groups", query, GROUP_ROWS)
    if is_sorted:
        by_name = {row.name: row for row in rows}
        rows = [by_name[name] for name in page.rows]
    else:
        rows = await _rows(visit.sight, answers, page.rows)
    return visit.page(
        "groups/all.html",
        list=page,
        rows=rows,
        wanted=wanted,
        own=own,
        failed=answers.failed,
        is_sorted=is_sorted,
    )


async def describe(visit: Visit) -> web.StreamResponse:
    """Show one group."""
    return visit.page("groups/one.html", **await _described(visit))


async def live(visit: Visit) -> web.StreamResponse:
    """Show the part of a group that changes: lag, queues, members."""
    return visit.page("groups/_live.html", **await _described(visit))


async def new(visit: Visit) -> web.StreamResponse:
    """Show the form that makes a group."""
    return visit.page("groups/new.html")


async def create(visit: Visit) -> web.StreamResponse:
    """Make a group on every broker."""
    form = await visit.form()
    group = form.get("group", "").strip()
    answers = await visit.admin.group.configs()
    if there := sorted(name for name, found in answers.or_raise().items() if group in found):
        raise InvalidUse(f"{', '.join(there)} has a group {group!r} already.")
    config = SubscriptionGroupConfig(group_name=group)
    masters = await visit.admin.group.create(msgspec.structs.replace(config, **_settings(form)))
    visit.changed(f"group {group} made on {', '.join(each.name for each in masters)}")
    return visit.go(f"/groups/{visit.quoted(group)}")


async def alter(visit: Visit) -> web.StreamResponse:
    """Change the settings of a group wherever it is."""
    group = visit.path("group")
    changes = _settings(await visit.form())
    if not changes:
        raise InvalidUse("Nothing was changed: every field is as it was.")
    changed = await visit.admin.group.alter(group, changes)
    visit.changed(f"group {group} changed on {', '.join(sorted(changed))}")
    return visit.go(f"/groups/{visit.quoted(group)}")


async def delete(visit: Visit) -> web.StreamResponse:
    """Delete a group that has no members, once its name was typed again."""
    group, form = visit.path("group"), await visit.form()
    if form.get("confirm", "").strip() != group:
        raise InvalidUse(f"Nothing was deleted: type {group} to say that you mean it.")
    dead = form.get("dead_letters") == "1"
    masters = await visit.admin.group.delete(group, dead_letters=dead)
    too = " with its dead letters" if dead else ""
    visit.changed(f"group {group} deleted{too} from {', '.join(each.name for each in masters)}")
    return visit.go("/groups")


async def describe_group(sight: Sight, group: str) -> GroupDescription:
    """Return how a group stands; its settings are those that the list has, a few seconds old."""

    async def find() -> GroupDescription:
        known = await sight.group_configs()
        described = await sight.admin.group.describe(group, known=known)
        sight.owners.note(group, described.queues, time.time_ns() // 1_000_000)
        return described

    return await sight.ask(("group", group), find)


async def _described(visit: Visit) -> dict[str, Any]:
    group = visit.path("group")
    described = await describe_group(visit.sight, group)
    path = f"/groups/{visit.quoted(group)}"
    page = ListPage(described.queues, visit.number("page", 1, 1, 1 << 31), path, {}, QUEUE_ROWS)
    owned: dict[str, int] = {}
    for queue in described.queues:
        owned[queue.owner] = owned.get(queue.owner, 0) + 1
    return {
        "group": group,
        "described": described,
        "list": page,
        "owned": owned,
        "members": described.members[:MEMBERS_SHOWN_MAX],
        "config": next(iter(described.configs.values()), None),
        "owner_changes": visit.sight.owners.changes(group)[:OWNER_CHANGES_SHOWN],
        "topics": sorted({queue.topic for queue in described.queues}),
    }


async def _rows(sight: Sight, answers: GroupConfigs, groups: Sequence[str]) -> list[GroupRow]:
    masters = [each for each in await sight.entries() if each.broker_id == MASTER_ID]
    blank = {
        group: GroupRow(group, [name for name, found in answers.found.items() if group in found])
        for group in groups
    }
    found = await in_time(groups, lambda group: _figures(sight, blank[group], masters))
    return [found.get(group, blank[group]) for group in groups]


async def _figures(sight: Sight, row: GroupRow, masters: list[BrokerEntry]) -> GroupRow:
    having = [each for each in masters if each.name in row.brokers]

    async def find() -> GroupRow:
        progress = await sight.admin.group.progress(row.name, having)
        online = await sight.admin.group.connections(row.name, having)
        if progress.failed or online.failed:  # a sum of some would mislead
            return row
        return msgspec.structs.replace(
            row,
            lag=sum(
                max(each.broker_offset - each.consumer_offset, 0)
                for stats in progress.found.values()
                for each in stats.offset_table.values()
            ),
            members=len(
                {
                    each.client_id
                    for connection in online.found.values()
                    if connection is not None
                    for each in connection.connection_set
                }
            ),
            pulls_per_second=sum(stats.consume_tps for stats in progress.found.values()),
        )

    try:
        return await sight.ask(("group row", row.name), find, FIGURES_AGE_S)
    except AerobeeError:
        return row


_SWITCHES: Final = ("consume_enable", "consume_broadcast_enable", "consume_message_orderly")
_NUMBERS: Final = {
    "retry_max_times": (-1, 10_000),
    "retry_queue_nums": (0, 65_535),
    "consume_timeout_minute": (1, 100_000),
}


def _settings(form: Mapping[str, str]) -> dict[str, Any]:
    """Read the fields of a group; what is blank stays as it is."""
    values: dict[str, Any] = {}
    for name in _SWITCHES:
        if (text := form.get(name, "")) in ("true", "false"):
            values[name] = text == "true"
    for name, (least, most) in _NUMBERS.items():
        text = form.get(name, "").strip()
        if not text:
            continue
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 9):
            raise InvalidUse(f"{name.replace('_', ' ')}: {text!r} is no whole number")
        if not least <= int(text) <= most:
            raise InvalidUse(f"{name.replace('_', ' ')}: {text} is not from {least} to {most}")
        values[name] = int(text)
    return values


PAGE: Final = ConsolePage(
    "Groups",
    "/groups",
    (
        PageRoute("GET", "/groups", show, costly=True),
        PageRoute("GET", "/groups-new", new, ConsoleRole.OPERATOR),
        PageRoute("POST", "/groups-new", create, ConsoleRole.OPERATOR),
        PageRoute("GET", "/groups/{group}", describe, costly=True),
        PageRoute("GET", "/groups/{group}/live", live),
        PageRoute("POST", "/groups/{group}", alter, ConsoleRole.OPERATOR),
        PageRoute("POST", "/groups/{group}/delete", delete, ConsoleRole.OPERATOR),
    ),
)
