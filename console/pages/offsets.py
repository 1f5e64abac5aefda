"""Offsets of a group moved: what would happen is shown first, and exactly that is done then."""

import secrets
import time
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from aiohttp import web

from aerobee.admin.offsets import QueueEdge, ResetPlan
from aerobee.client.errors import InvalidUse
from aerobee.console.listing import ListPage
from aerobee.console.page import ConsolePage, PageRoute, Visit
from aerobee.console.roles import ConsoleRole

PLANS_MAX: Final = 8
"""Of one session; a plan that was shown before these is made anew."""
CHANGE_ROWS: Final = 100
PLAN_AGE_S: Final = 600.0
"""So long a plan can be done: members come and go, and the topic is written to."""
QUEUES_AGE_S: Final = 2.0


class ShownPlan(msgspec.Struct, frozen=True):
    """A plan and when it was made, by the monotonic clock."""

    plan: ResetPlan
    made_s: float


async def show(visit: Visit) -> web.StreamResponse:
    """Show the form, and under it what a reset would do once it is filled in."""
    group = visit.path("group")
    known = await visit.sight.group_configs()
    described = await visit.sight.ask(
        ("group queues", group),
        lambda: visit.sight.admin.group.describe(group, owners=False, known=known),
        QUEUES_AGE_S,
    )
    topics = sorted({queue.topic for queue in described.queues} | set(described.subscriptions))
    values: dict[str, Any] = {"plan": None, "plan_id": "", "list": None}
    plan_id = visit.query("plan")
    if plan_id:
        plan = _kept(visit, plan_id, group)
        number = visit.number("page", 1, 1, 1 << 31)
        path = f"/groups/{visit.quoted(group)}/reset"
        changes = ListPage(plan.changes, number, path, {"plan": plan_id}, CHANGE_ROWS)
        values = {"plan": plan, "plan_id": plan_id, "list": changes}
    return visit.page(
        "groups/offsets.html", group=group, topics=topics, members=len(described.members), **values
    )


async def preview(visit: Visit) -> web.StreamResponse:
    """Make a plan of what was filled in; nothing is changed."""
    group, form = visit.path("group"), await visit.form()
    topic = form.get("topic", "").strip()
    if not topic:
        raise InvalidUse("Name the topic whose offsets are to be moved.")
    to, is_offset = _target(form.get("to", ""), form.get("moment", ""), form.get("offset", ""))
    queue = form.get("queue", "").strip()
    if queue and not (queue.isascii() and queue.isdecimal() and len(queue) < 7):
        raise InvalidUse(f"{queue!r} is no number of a queue")
    plan = await visit.admin.offset.plan(
        group,
        topic,
        to,
        is_offset=is_offset,
        broker=form.get("broker", "").strip() or None,
        queue_id=int(queue) if queue else None,
    )
    plans = visit.session.plans
    while len(plans) >= PLANS_MAX:
        del plans[next(iter(plans))]
    plan_id = secrets.token_urlsafe(9)
    plans[plan_id] = ShownPlan(plan, time.monotonic())
    return visit.go(f"/groups/{visit.quoted(group)}/reset", plan=plan_id)


async def apply(visit: Visit) -> web.StreamResponse:
    """Do what was shown."""
    group, form = visit.path("group"), await visit.form()
    plan_id = form.get("plan", "")
    plan = _kept(visit, plan_id, group)
    shown = visit.session.plans.pop(plan_id)  # whoever clicks twice does it once
    try:
        await visit.admin.offset.apply(plan)
    except BaseException:
        visit.session.plans[plan_id] = shown  # it can be tried again
        raise
    again = sum(change.again for change in plan.changes)
    what = f"{again} messages are consumed again" if again > 0 else f"{-again} are passed over"
    visit.changed(
        f"offsets of group {group} in {plan.topic} moved in {len(plan.changes)} queues: {what}"
    )
    return visit.go(f"/groups/{visit.quoted(group)}")


def _kept(visit: Visit, plan_id: str, group: str) -> ResetPlan:
    shown = visit.session.plans.get(plan_id)
    if (
        not isinstance(shown, ShownPlan)
        or shown.plan.group != group
        or time.monotonic() - shown.made_s > PLAN_AGE_S
    ):
        raise InvalidUse("This plan was done already, or is too old: make it anew.")
    return shown.plan


def _target(to: str, moment: str, offset: str) -> tuple[QueueEdge | int, bool]:
    """Read where a reset leads to, and whether that is an offset."""
    match to:
        case "begin":
            return QueueEdge.BEGIN, False
        case "end":
            return QueueEdge.END, False
        case "time":
            return _moment_ms(moment.strip()), False
        case "offset":
            text = offset.strip()
            if not (text.isascii() and text.isdecimal() and len(text) < 19):
                raise InvalidUse(f"{text!r} is no offset: a whole number from 0 on")
            return int(text), True
        case _:
            raise InvalidUse("Choose where the group is to go on.")


def _moment_ms(text: str) -> int:
    """Read a time of UTC, as a field of HTML writes it, in ms since 1970."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidUse(f"{text!r} is no time like 2026-05-31T12:30") from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    moment_ms = int(found.timestamp() * 1000)
    if moment_ms < 0:
        raise InvalidUse(f"{text!r} is before 1970")
    return moment_ms


PAGE: Final = ConsolePage(
    "Offsets",
    "",
    (
        PageRoute("GET", "/groups/{group}/reset", show, costly=True),
        PageRoute("POST", "/groups/{group}/reset", preview, costly=True),
        PageRoute("POST", "/groups/{group}/reset/apply", apply, costly=True),
    ),
    ConsoleRole.OPERATOR,
)
