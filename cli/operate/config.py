"""`aerobee config`: topics and groups in a file that version control keeps."""

from pathlib import Path
from typing import Final

import click

from aerobee.admin.metadata import as_file, difference
from aerobee.cli.operate.changes_shown import make_changes, show_changes
from aerobee.cli.operate.cluster_door import ClusterDoor, asks_cluster, yes_option
from aerobee.cli.operate.metadata_files import kind_of, read_metadata_file, written
from aerobee.cli.program import examples

EXIT_DIFFERENT: Final = 5
"""`diff` alone: the cluster is not what the file says."""
FILE: Final = click.Path(dir_okay=False, path_type=Path)

prune_option = click.option(
    "--prune", is_flag=True, help="What the file does not name goes, topics with their messages."
)
file_argument = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))


@click.group(
    epilog=examples(
        "aerobee config export > cluster.json",
        "aerobee config diff cluster.json",
        "aerobee config apply cluster.json --dry-run",
    )
)
def config() -> None:
    """Topics and groups as a file: exported, compared, applied.

    The file is JSON, YAML (.yaml, .yml) or TOML (.toml), and written sorted, so that version
    control shows what changes. "brokers": ["*"] stands for every master.
    """


@config.command(
    "export",
    epilog=examples(
        "aerobee config export -f cluster.json", "aerobee config export -o yaml > cluster.yaml"
    ),
)
@click.option("-f", "--file", type=FILE, help="Where to. [default: standard output]")
@asks_cluster
async def export_file(door: ClusterDoor, file: Path | None) -> None:
    """Write the topics and groups that users made, with their settings on each broker.

    As JSON, or as YAML with -o yaml, or into a file of that name (.yaml, .yml). Every broker has to
    answer. No messages, offsets, users or settings of brokers.
    """
    kind = kind_of(file, door.output)
    async with door.admin() as admin:
        found = await admin.metadata.current()
    data = written(as_file(found), kind)
    if file is None:
        click.echo(data, nl=False)
    else:
        _write(file, data)
        click.echo(f"{file}: {len(found.topics)} topics, {len(found.groups)} groups", err=True)


@config.command(
    epilog=examples("aerobee config diff cluster.json", "aerobee config diff c --prune")
)
@file_argument
@prune_option
@asks_cluster
async def diff(door: ClusterDoor, file: Path, prune: bool) -> None:
    """Show what would make the cluster what FILE says; exit code 5 if there is anything."""
    data = read_metadata_file(file)
    async with door.admin() as admin:
        wanted = await admin.metadata.read(data)
        changes = difference(await admin.metadata.current(), wanted, prune=prune)
    show_changes(door, changes)
    if changes:
        raise SystemExit(EXIT_DIFFERENT)


@config.command(
    epilog=examples(
        "aerobee config apply cluster.json --dry-run", "aerobee config apply cluster.json --yes"
    )
)
@file_argument
@prune_option
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@yes_option
@asks_cluster
async def apply(door: ClusterDoor, file: Path, prune: bool, dry_run: bool, yes: bool) -> None:
    """Make the cluster what FILE says; what is so already is left alone.

    Nothing is deleted without --prune. Applied again it does nothing; where a broker refused
    something, what was done before stays, and applying again does the rest.
    """
    data = read_metadata_file(file)
    async with door.admin() as admin:
        wanted = await admin.metadata.read(data)
        changes = difference(await admin.metadata.current(), wanted, prune=prune)
        await make_changes(door, admin, changes, dry_run=dry_run, yes=yes)


def _write(file: Path, data: bytes) -> None:
    """Put a file in its place as a whole: an interruption leaves the one that was there."""
    fresh = file.with_name(f"{file.name}.tmp")
    fresh.write_bytes(data)
    fresh.replace(file)
