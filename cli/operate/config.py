"""`aerobee config`: topics and groups in a file that version control keeps."""

from pathlib import Path
from typing import Final

import click

from aerobee.admin.metadata import MetadataChange, as_file, difference
from aerobee.cli.operate.cluster_door import ClusterDoor, asks_cluster, confirm, yes_option
from aerobee.cli.operate.output import Cell, Table, show
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

    The file is JSON, sorted, so that version control shows what changes. "brokers": ["*"] stands
    for every master.
    """


@config.command(
    "export", epilog=examples("aerobee config export", "aerobee config export -f c.json")
)
@click.option("-f", "--file", type=FILE, help="Where to. [default: standard output]")
@asks_cluster
async def export_file(door: ClusterDoor, file: Path | None) -> None:
    """Write the topics and groups that users made, with their settings on each broker.

    Every broker has to answer. No messages, offsets, users or settings of brokers.
    """
    async with door.admin() as admin:
        found = await admin.metadata.current()
    data = as_file(found)
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
    data = _read(file)
    async with door.admin() as admin:
        wanted = await admin.metadata.read(data)
        changes = difference(await admin.metadata.current(), wanted, prune=prune)
    show(_table(changes), door.output, f"{len(changes)} changes")
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
    data = _read(file)
    async with door.admin() as admin:
        wanted = await admin.metadata.read(data)
        changes = difference(await admin.metadata.current(), wanted, prune=prune)
        show(_table(changes), door.output, f"{len(changes)} changes")
        if dry_run or not changes:
            return
        deleted = sum(change.action == "delete" for change in changes)
        confirm(f"Make these {len(changes)} changes, {deleted} of them deletions?", yes)
        done = await admin.metadata.apply(changes)
    click.echo(f"{done} changes made", err=True)


def _read(file: Path) -> bytes:
    return file.read_bytes()


def _write(file: Path, data: bytes) -> None:
    file.write_bytes(data)


def _table(changes: list[MetadataChange]) -> Table:
    rows: list[list[Cell]] = [
        [each.action, each.kind, each.name, each.broker, _settings_text(each)] for each in changes
    ]
    return Table(("action", "kind", "name", "broker", "settings"), rows)


def _settings_text(change: MetadataChange) -> str:
    if change.action != "change":
        return ""
    return ", ".join(f"{key}: {was} -> {now}" for key, (was, now) in change.settings.items())
