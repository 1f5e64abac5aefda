"""`aerobee offset`: let a group go on elsewhere, with a preview."""

from typing import Final

import click

from aerobee.admin.offsets import QueueEdge, ResetPlan
from aerobee.cli.operate.cluster_door import (
    ClusterDoor,
    asks_cluster,
    broker_option,
    confirm,
    yes_option,
)
from aerobee.cli.operate.moments import PointInTime
from aerobee.cli.operate.output import Cell, Table, show
from aerobee.cli.program import examples
from aerobee.client.errors import InvalidUse

QUEUE: Final = click.IntRange(0, 32_766)
OFFSET: Final = click.IntRange(0, 2**63 - 1)


@click.group(
    epilog=examples(
        "aerobee offset reset billing orders --to-time 2026-11-21T18:30 --dry-run",
        "aerobee offset reset billing orders --to-end --yes",
    )
)
def offset() -> None:
    """Offsets of consumer groups."""


@offset.command(
    epilog=examples(
        "aerobee offset reset billing orders --to-end                 # skip what is there",
        "aerobee offset reset billing orders --to-begin",
        "aerobee offset reset billing orders --to-time 2026-11-21T18:30+01:00",
        "aerobee offset reset billing orders --to-offset 4711 -b broker-a -q 3",
    )
)
@click.argument("group")
@click.argument("topic")
@click.option("--to-time", type=PointInTime(), help="The first message of this time or later.")
@click.option("--to-offset", type=OFFSET, help="This offset, cut to what each queue has.")
@click.option("--to-begin", is_flag=True, help="The oldest message.")
@click.option("--to-end", is_flag=True, help="Behind the newest message: skip all.")
@click.option("-q", "--queue", "queue_id", type=QUEUE, help="This queue alone.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@yes_option
@broker_option
@asks_cluster
async def reset(
    door: ClusterDoor,
    group: str,
    topic: str,
    to_time: int | None,
    to_offset: int | None,
    to_begin: bool,
    to_end: bool,
    queue_id: int | None,
    dry_run: bool,
    yes: bool,
    broker: str | None,
) -> None:
    """Let GROUP go on elsewhere in TOPIC; what that means is shown first.

    Connected members are told by their brokers. `again` counts messages that are consumed once
    more, below zero those that are passed over. What the group tries again (%RETRY%) is a topic of
    its own: reset that as well if it is meant.
    """
    to = _where(to_time, to_offset, to_begin, to_end)
    async with door.admin() as admin:
        plan = await admin.offset.plan(
            group, topic, to, is_offset=to_offset is not None, broker=broker, queue_id=queue_id
        )
        show(_table(plan), door.output, _caption(plan))
        if dry_run:
            return
        confirm(f"Reset {group} in {topic}?", yes)
        await admin.offset.apply(plan)
    click.echo(f"{group}: reset in {len(plan.changes)} queues of {topic}", err=True)


@offset.command(
    epilog=examples(
        "aerobee offset copy billing billing-new orders --dry-run",
        "aerobee offset copy billing billing-new orders --yes",
    )
)
@click.argument("source")
@click.argument("target")
@click.argument("topic")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@yes_option
@asks_cluster
async def copy(
    door: ClusterDoor, source: str, target: str, topic: str, dry_run: bool, yes: bool
) -> None:
    """Let group TARGET go on in TOPIC where group SOURCE is, as for a group of another name.

    Stop the members of SOURCE first, or both get what comes meanwhile. `aerobee group create` makes
    TARGET. Retries and dead letters stay with SOURCE.
    """
    async with door.admin() as admin:
        plan = await admin.offset.plan_copy(source, target, topic)
        show(_table(plan), door.output, _caption(plan))
        if dry_run:
            return
        confirm(f"Let {target} go on where {source} is in {topic}?", yes)
        await admin.offset.apply(plan)
    click.echo(f"{target}: as {source} in {len(plan.changes)} queues of {topic}", err=True)


def _where(
    time_ms: int | None, offset_wanted: int | None, begin: bool, end: bool
) -> QueueEdge | int:
    given: list[QueueEdge | int] = [
        *([time_ms] if time_ms is not None else []),
        *([offset_wanted] if offset_wanted is not None else []),
        *([QueueEdge.BEGIN] if begin else []),
        *([QueueEdge.END] if end else []),
    ]
    if len(given) != 1:
        raise InvalidUse("give one of --to-time, --to-offset, --to-begin and --to-end")
    return given[0]


def _table(plan: ResetPlan) -> Table:
    heads = ("topic", "broker", "queue", "begin", "end", "before", "after", "again")
    rows: list[list[Cell]] = [
        [each.topic, each.broker, each.queue_id, each.begin, each.end, each.before, each.after,
         each.again]
        for each in plan.changes
    ]  # fmt: skip
    return Table(heads, rows)


def _caption(plan: ResetPlan) -> str:
    again = sum(change.again for change in plan.changes if change.again > 0)
    skipped = -sum(change.again for change in plan.changes if change.again < 0)
    return (
        f"{again:,} messages are consumed again, {skipped:,} are passed over;"
        f" {plan.members} members are connected"
    )
