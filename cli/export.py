"""`aerobee export`: messages of stores to a lake of files, each message exactly once."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from aerobee.cli.program import Failure, WrongSettings, examples
from aerobee.cli.progress import progress_bar

if TYPE_CHECKING:
    from aerobee.spark.exports.options import Wanted

EXIT_LOST: Final = 3
BAR_AFTER_S: Final = 2.0
_SIZE = re.compile(r"(\d{1,18})\s*([kmg]?)i?b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class Lost(Failure):
    """Messages that were to be exported are gone."""

    exit_code = EXIT_LOST


class Moment(click.ParamType[int]):
    """A date, a date and time, or ms since 1970; UTC unless the text has an offset."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The first whole ms since 1970 that is not before the moment."""
        if isinstance(value, int):
            return value
        if str(value).isdecimal() and 8 < len(value) <= 18:
            return int(value)
        from aerobee.spark.exports.options import milliseconds

        try:
            moment_ms = milliseconds(datetime.fromisoformat(value))
        except ValueError:
            moment_ms = None
        if moment_ms is None:
            self.fail(f"{value!r}: write 2026-11-21, 2026-11-21T18:30 (UTC), or ms since 1970")
        return moment_ms


class Size(click.ParamType[int]):
    """A number of bytes, or of KiB, MiB or GiB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The size in bytes."""
        if isinstance(value, int):
            return value
        found = _SIZE.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r}: write bytes, or a number with k, m or g, as 256m")
        return int(found[1]) * _UNITS[found[2].lower()]


@click.command(
    epilog=examples(
        "aerobee export --store ~/store --to ./lake",
        "aerobee export --store ~/store --to ./lake --incremental        # every hour, from cron",
        "aerobee export --store ~/store --to ./lake --incremental --dry-run",
        "aerobee export --store ~/store --to ./orders --topic orders --since 2026-11-01",
        "aerobee export --store '/data/broker-*/store' --to /lake --format delta --incremental",
        "aerobee export --store a=/data/1 --store b=/data/2 --to ./lake --topic-pattern 'ord.*'",
    )
    + "\n\n\b\nExit codes:\n"
    "  0  done; also if there was nothing new\n"
    "  1  failed: a store cannot be read or is away, a file not be written; nothing was added,\n"
    "     unless the message says that the version counts\n"
    "  2  the call cannot be: a wrong option, a folder with something else in it\n"
    "  3  messages were deleted before they were exported, by retention or with their topic;\n"
    "     nothing was added"
)
@click.option(
    "--store",
    "stores",
    required=True,
    multiple=True,
    help="Folder of a broker's store, running or stopped, or a pattern, or name=folder; may be"
    " repeated.",
)
@click.option(
    "--to",
    "target",
    required=True,
    type=click.Path(),
    help="Folder to write: one that does not exist or is empty, or an earlier export's.",
)
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated.")
@click.option("--topic-pattern", help="Only topics whose whole names match (regular expression).")
@click.option("--system-topics", is_flag=True, help="RocketMQ's own topics as well.")
@click.option("--since", type=Moment(), help="Only messages stored at this time or later (UTC).")
@click.option("--until", type=Moment(), help="Only messages stored before this time (UTC).")
@click.option(
    "--format",
    type=click.Choice(["parquet", "delta", "json"]),
    default="parquet",
    show_default=True,
    help="What the files are.",
)
@click.option("--incremental", is_flag=True, help="Go on where the last export to there ended.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier export in that folder.")
@click.option("--decompress", is_flag=True, help="Unpack bodies that producers compressed.")
@click.option(
    "--compression",
    type=click.Choice(["snappy", "zstd", "gzip", "none"]),
    help="How files are compressed: snappy (usual), zstd or none; json: gzip (usual), zstd, none.",
)
@click.option(
    "--properties",
    type=click.Choice(["map", "binary"]),
    default="map",
    show_default=True,
    help="A map, or the bytes that the log has: a quarter less CPU for small messages.",
)
@click.option(
    "--file-bytes", type=Size(), default="256m", show_default=True, help="About the largest file."
)
@click.option(
    "--fail-on-data-loss/--no-fail-on-data-loss",
    default=True,
    help="Whether messages that were deleted before they were exported, or are damaged, and stores"
    " that are away end it or are noted.",
)
@click.option("--dry-run", is_flag=True, help="Only tell what would be read.")
def export(
    stores: tuple[str, ...],
    target: str,
    dry_run: bool,
    **wanted: Any,
) -> None:
    """Write messages to one folder per topic and day, each exactly once, whatever is killed."""
    since, until = wanted["since"], wanted["until"]
    if since is not None and until is not None and until <= since:
        raise click.UsageError("--until is not after --since")
    if wanted["incremental"] and wanted["overwrite"]:
        raise click.UsageError("--incremental adds to an export, --overwrite replaces it: choose")
    from aerobee.cli import export_report
    from aerobee.spark.errors import DataLost, ExportRefused, OptionError
    from aerobee.spark.exports.exporter import export as run_export
    from aerobee.spark.exports.exporter import plan_to

    # one alone may list several with commas
    named = stores if len(stores) > 1 else stores[0]
    given: Wanted = wanted  # type: ignore[assignment]
    try:
        if dry_run:
            export_report.show_plan(plan_to(named, target, **given), target)
            return
        with progress_bar("exporting", after_s=BAR_AFTER_S) as progress:
            summary = run_export(named, target, progress=progress, **given)
    except (ExportRefused, OptionError) as error:
        raise WrongSettings(str(error)) from None
    except DataLost as error:
        raise Lost(str(error)) from None
    export_report.show_summary(summary)
