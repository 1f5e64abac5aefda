"""Changes of topics and groups: shown, asked for and made, by all commands that plan some."""

import click

from aerobee.admin.client import AdminClient
from aerobee.admin.metadata import MetadataChange
from aerobee.cli.operate.cluster_door import ClusterDoor, confirm
from aerobee.cli.operate.output import Cell, Table, show
from aerobee.cli.progress import progress_bar

BAR_AFTER_S = 2.0


def show_changes(door: ClusterDoor, changes: list[MetadataChange]) -> None:
    """Print what would be done, a change a row."""
    rows: list[list[Cell]] = [
        [each.action, each.kind, each.name, each.broker, _settings_text(each)] for each in changes
    ]
    heads = ("action", "kind", "name", "broker", "settings")
    show(Table(heads, rows), door.output, f"{len(changes)} changes")


async def make_changes(
    door: ClusterDoor,
    admin: AdminClient,
    changes: list[MetadataChange],
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    """Show changes, and make them when somebody has said yes; say how many were made."""
    show_changes(door, changes)
    if dry_run or not changes:
        return
    deleted = sum(change.action == "delete" for change in changes)
    confirm(f"Make these {len(changes)} changes, {deleted} of them deletions?", yes)
    done = 0

    def seen(count: int) -> None:
        nonlocal done
        done = count
        bar(count, len(changes))

    try:
        with progress_bar("changing", after_s=BAR_AFTER_S) as bar:
            await admin.metadata.apply(changes, progress=seen)
    finally:
        rest = "" if done == len(changes) else f" of {len(changes)}: the same again makes the rest"
        click.echo(f"{done} changes made{rest}", err=True)


def _settings_text(change: MetadataChange) -> str:
    if change.action != "change":
        return ""
    return ", ".join(f"{key}: {was} -> {now}" for key, (was, now) in change.settings.items())
