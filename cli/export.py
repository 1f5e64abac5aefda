"""`aerobee export`: a store's messages as Parquet, read by Spark."""

import importlib.util
from datetime import datetime
from pathlib import Path

import click

from aerobee.cli.program import Failure, examples
from aerobee.cli.progress import progress_bar

MOMENTS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"]


@click.command(
    epilog=examples(
        "aerobee export --store ~/store --to ./parquet",
        "aerobee export --store ~/store --to ./parquet --topic orders --since 2026-03-01",
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
    help="Folder to write, new or empty.",
)
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be repeated.")
@click.option("--since", type=click.DateTime(MOMENTS), help="First store time, UTC, included.")
@click.option("--until", type=click.DateTime(MOMENTS), help="Last store time, UTC, not included.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier export.")
@click.option("--decompress", is_flag=True, help="Write compressed bodies as they were sent.")
@click.option("--compression", default="snappy", show_default=True, help="Of the Parquet files.")
def export(
    store: Path,
    target: Path,
    topics: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    overwrite: bool,
    decompress: bool,
    compression: str,
) -> None:
    """Write a store's messages to Parquet, one folder per topic and day, all or nothing."""
    if importlib.util.find_spec("pyspark") is None:
        raise Failure("Spark is not installed: pip install 'aerobee[spark,jdk]'")
    from aerobee.spark.exporter import export as run_export

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
    for topic in summary.topics:
        click.echo(f"{topic.topic:<40}{topic.messages:>14,} messages {topic.files:>6,} files")
    click.echo(
        f"{summary.messages:,} messages in {summary.files:,} files "
        f"({summary.bytes / 1e6:,.1f} MB) under {target}, {summary.seconds:.1f} s"
    )
