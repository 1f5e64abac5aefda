"""What an export tells: tables on a terminal, tab-separated lines in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from rich.console import JustifyMethod

    from aerobee.spark.exports.plan import ExportPlan
    from aerobee.spark.exports.summary import ExportSummary
    from aerobee.spark.lake.manifest import Gap

TOPIC_WIDTH_LEAST: Final = 10
GAP_WIDTH: Final = 2  # between columns
_WORDS: Final = ("topic", "queue", "first", "last")  # columns that are no numbers


def show_summary(summary: ExportSummary) -> None:
    """What was written of each topic; what there is to say besides goes to standard error."""
    if not summary.added:
        click.echo(f"nothing new: {summary.target} has all messages up to now", err=True)
    else:
        heads = ["topic", "messages", "days", "files", "bytes", "first", "last"]
        rows = [
            [
                topic.topic,
                *map(str, (topic.messages, topic.days, topic.files, topic.bytes)),
                moment_text(topic.first_ms),
                moment_text(topic.last_ms),
            ]
            for topic in summary.topics
        ]
        _show(heads, rows, f"{summary.messages:,} messages added under {summary.target}")
    _tell_gaps(summary.gaps, summary.away)
    for reason in summary.waiting:
        click.echo(f"waiting: {reason}", err=True)
    _tell_undispatched(summary.undispatched_bytes)
    if summary.added and sys.stdout.isatty():
        rate = summary.log_bytes / max(summary.seconds, 1e-9) / 1e6
        click.echo(f"read {summary.log_bytes:,} bytes in {summary.seconds:.1f} s ({rate:.0f} MB/s)")


def show_plan(plan: ExportPlan, target: str) -> None:
    """The offsets of each queue that would be read, and how much that is."""
    heads = ["topic", "queue", "from", "to", "messages"]
    rows = [
        [
            each.key.topic,
            f"{each.key.broker}:{each.key.queue_id}",
            *map(str, (each.start, each.end, each.end - each.start)),
        ]
        for each in plan.ranges
    ]
    _show(heads, rows, f"{plan.messages:,} messages")
    after = f", after version {plan.base.version}" if plan.base else ""
    _tell_gaps(plan.gaps, plan.away)
    if not plan.messages and not plan.unnumbered:
        click.echo(f"nothing new for {target}{after}", err=True)
        return
    files = {segment.path for store in plan.stores for segment in store.segments}
    topics = {each.key.topic for each in plan.ranges}
    click.echo(
        f"would read {plan.messages} messages of {len(plan.ranges)} queues, {len(topics)} topics,"
        f" about {plan.bytes} bytes in {len(files)} files of the log, and write to {target}{after}",
        err=True,
    )
    for label in plan.unnumbered:
        click.echo(f"{label} has no ConsumeQueues: all of its log would be read", err=True)
    _tell_undispatched(sum(each.undispatched_bytes for each in plan.stores))


def moment_text(moment_ms: int) -> str:
    """A point in time as UTC text to the second; far-off ones as the number they are."""
    try:
        moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(moment_ms)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _tell_gaps(gaps: Sequence[Gap], away: Sequence[str]) -> None:
    for label in away:
        click.echo(f"away: store {label}, which was exported before, is not there", err=True)
    for gap in gaps:
        click.echo(f"{'lost' if gap.lost else 'changed'}: {gap}", err=True)


def _tell_undispatched(size: int) -> None:
    if size:
        click.echo(
            f"{size} bytes at the log's end are in no queue yet: the broker has to start, or to"
            " catch up, before they can be exported",
            err=True,
        )


def _show(heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> None:
    if not sys.stdout.isatty():
        for row in [heads, *rows]:
            click.echo("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # as text: what looks like markup is part of the name of a folder
    table = Table(box=None, padding=(0, GAP_WIDTH, 0, 0), caption=Text(caption))
    shown = [
        [cell if head in _WORDS else f"{int(cell):,}" for head, cell in pairs]
        for pairs in (zip(heads, row, strict=True) for row in rows)
    ]
    console = Console()
    needed = 0
    for head, *cells in zip(heads, *shown, strict=True):
        if head == "topic":
            table.add_column(head, overflow="fold", min_width=TOPIC_WIDTH_LEAST)
            needed += TOPIC_WIDTH_LEAST + GAP_WIDTH
        else:
            justify: JustifyMethod = "left" if head in _WORDS else "right"
            table.add_column(head, justify=justify, no_wrap=True)
            needed += max(map(len, (head, *cells))) + GAP_WIDTH
    for row in shown:
        table.add_row(*map(Text, row))
    # a number cut short would be a wrong one: a terminal that is narrower breaks lines
    console.width = max(console.width, needed)
    console.print(table)
