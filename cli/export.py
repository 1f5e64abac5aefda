"""`aerobee export`: a store's messages as Parquet, read by Spark."""

from pathlib import Path

import click

from aerobee.cli.program import examples


@click.command(epilog=examples("aerobee export --store ~/store --to ./parquet"))
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
    type=click.Path(path_type=Path),
    help="Folder to write; must not exist or be empty.",
)
def export(store: Path, target: Path) -> None:
    """Write every message of a store to Parquet files, one folder per topic and date."""
    from aerobee.spark.export import export as run_export  # brings Spark: seconds, not milliseconds

    run_export(store, target)
