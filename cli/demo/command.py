"""`aerobee demo`: runs the story, lets Spark count, and strikes the balance."""

import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click

from aerobee.cli.demo.screen import screen
from aerobee.cli.demo.story import TOPICS, Story
from aerobee.cli.program import Failure, WrongSettings, examples
from aerobee.cli.progress import progress_bar
from aerobee.remoting.extras import install_line, missing
from aerobee.remoting.net import process


@click.command(epilog=examples("aerobee demo", "aerobee demo --messages 20000 --dir /tmp/demo"))
@click.option(
    "--messages",
    type=click.IntRange(100, 10_000_000),
    default=100_000,
    show_default=True,
    help="How many to send.",
)
@click.option(
    "--dir",
    "root",
    type=click.Path(file_okay=False, path_type=Path),
    help="New or empty folder for the files. [default: a temporary one]",
)
@click.option("--spark/--no-spark", "with_spark", default=True, help="Let Spark count the log.")
def demo(messages: int, root: Path | None, with_spark: bool) -> None:
    """Show a cluster at work, then read its log with Spark.

    A nameserver and a broker run in this process with real sockets and files. A producer sends
    while two consumers share the queues; a third joins, the first leaves. Then there are a
    transaction, a delay and a retry that is stored once. Ends with 0 if nothing was lost and Spark
    counted what was sent.
    """
    root = _folder(root)
    logging.basicConfig(filename=root / "demo.log", level=logging.INFO)
    with screen() as view:
        story = Story(messages, root, view)
        process.run(story.run())
    counted: Mapping[str, int] = {}
    parquet = root / "parquet"
    if with_spark and missing("spark"):
        click.echo(f"\nSpark is not installed ({install_line('export')}): nothing exported")
        with_spark = False
    if with_spark:
        counted = _count(story.store, parquet)
    totals = story.tally.totals()
    click.echo()
    for name, value in (
        ("sent", f"{totals.sent:,}"),
        ("consumed", f"{totals.consumed:,}"),
        ("lost", f"{totals.lost:,}"),
        ("delivered more than once", f"{totals.repeated:,}"),
        ("sent per second", f"{totals.sent / story.send_seconds:,.0f}"),
        ("sent and consumed per second", f"{totals.consumed / story.seconds:,.0f}"),
        *story.facts,
        ("the broker's store", str(story.store)),
        *([("Parquet files", str(parquet))] if with_spark else []),
    ):
        click.echo(f"{name:<40}{value:>10}")
    if totals.lost:
        raise Failure(f"{totals.lost} messages were lost")
    counts = sum(counted.get(topic, 0) for topic in TOPICS)
    if with_spark and counts != totals.sent:
        raise Failure(f"Spark counted {counts} messages, {totals.sent} were sent")


def _folder(root: Path | None) -> Path:
    """Return the folder to work in, which must be empty: an older log would be counted too."""
    if root is None:
        return Path(tempfile.mkdtemp(prefix="aerobee-demo-"))
    root.mkdir(parents=True, exist_ok=True)
    if any(root.iterdir()):
        raise WrongSettings(f"{root} is not empty: name a folder that does not exist, or is empty")
    return root.absolute()


def _count(store: Path, parquet: Path) -> dict[str, int]:
    """Export, count and print what Spark found."""
    from aerobee.cli.demo.spark_count import export_and_count

    click.echo("\nSpark reads the log and writes Parquet")
    with progress_bar("exporting") as progress:
        counted = export_and_count(store, parquet, progress)
    click.echo("Spark counted by topic:")
    for topic in TOPICS:
        click.echo(f"  {topic:<28}{counted.get(topic, 0):>10,}")
    return counted
