"""`aerobee export`: a store's messages as Parquet, read by Spark."""

from __future__ import annotations

import importlib.util
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aerobee.cli.program import Failure, WrongSettings, examples
from aerobee.cli.progress import progress_bar

if TYPE_CHECKING:
    from aerobee.spark.exporter import ExportSummary


class Moment(click.ParamType[int]):
    """A date, a date and time, or ms since 1970; UTC unless the text has an offset."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The moment in ms since 1970."""
        if isinstance(value, int):
            return value
        if str(value).isdecimal() and len(value) > 8:
            return int(value)
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r}: write 2026-11-21, 2026-11-21T18:30 (UTC), or ms since 1970")
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)


@click.command(
    epilog=examples(
        "aerobee export --store ~/store --to ./parquet",
        "aerobee export --store ~/store --to ./orders --topic orders --since 2026-11-01",
    )
)
@click.option(
    "--store",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of a broker's store, running or stopped.",
)
@click.option(
    "--to",
    "target",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write: one that does not exist, or is empty.",
)
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated.")
@click.option("--since", type=Moment(), help="Only messages stored at this time or later (UTC).")
@click.option("--until", type=Moment(), help="Only messages stored before this time (UTC).")
@click.option("--overwrite", is_flag=True, help="Replace an earlier export in that folder.")
@click.option("--decompress", is_flag=True, help="Unpack bodies that producers compressed.")
@click.option(
    "--compression",
    type=click.Choice(["snappy", "zstd", "none"]),
    default="snappy",
    show_default=True,
    help="How the Parquet files are compressed.",
)
def export(
    store: Path,
    target: Path,
    topics: tuple[str, ...],
    since: int | None,
    until: int | None,
    overwrite: bool,
    decompress: bool,
    compression: str,
) -> None:
    """Write a store's messages to Parquet, one folder per topic and day, all or nothing."""
    if since is not None and until is not None and until <= since:
        raise click.UsageError("--until is not after --since")
    if importlib.util.find_spec("pyspark") is None:
        raise Failure("Spark is not installed: pip install 'aerobee[spark,jdk]'")
    from aerobee.spark.errors import ExportRefused, OptionError
    from aerobee.spark.exporter import export as run_export

    try:
        with progress_bar("exporting") as progress:
            summary = run_export(
                store,
                target,
                topics=topics,
                since=since,
                until=until,
                overwrite=overwrite,
                decompress=decompress,
                compression=compression,
                progress=progress,
            )
    except (ExportRefused, OptionError) as error:
        raise WrongSettings(str(error)) from None
    show(summary)


def show(summary: ExportSummary) -> None:
    """What was written: a table on a terminal, tab-separated lines in a pipe."""
    heads = ["topic", "messages", "days", "files", "bytes", "first", "last"]
    rows = [
        [
            topic.topic,
            str(topic.messages),
            str(topic.days),
            str(topic.files),
            str(topic.bytes),
            moment_text(topic.first_ms),
            moment_text(topic.last_ms),
        ]
        for topic in summary.topics
    ]
    if not sys.stdout.isatty():
        for row in [heads, *rows]:
            click.echo("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(
        box=None,
        padding=(0, 2, 0, 0),
        caption=f"{summary.messages:,} messages under {summary.target}",
    )
    for head in (head for head in heads if head != "days"):
        if head == "topic":
            table.add_column(head, overflow="fold", min_width=10)
        else:  # a number cut short would be a wrong one
            right = head not in ("first", "last")
            table.add_column(head, justify="right" if right else "left", no_wrap=True)
    for topic in summary.topics:
        table.add_row(
            topic.topic,
            *(f"{number:,}" for number in (topic.messages, topic.files)),
            f"{topic.bytes / 1e6:,.1f} MB",
            *(moment_text(ms)[:16].replace("T", " ") for ms in (topic.first_ms, topic.last_ms)),
        )
    Console().print(table)
    rate = summary.log_bytes / summary.seconds / 1e6
    click.echo(f"read {summary.log_bytes:,} bytes in {summary.seconds:.1f} s ({rate:.0f} MB/s)")


def moment_text(moment_ms: int) -> str:
    """A point in time as UTC text to the second; far-off ones as the number they are."""
    try:
        moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(moment_ms)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
