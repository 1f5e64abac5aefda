"""`aerobee group producers` and `threads`: who sends, and what a member is doing."""

import click

from aerobee.cli.operate.cluster_door import (
    ClusterDoor,
    asks_cluster,
    broker_option,
    cluster_option,
)
from aerobee.cli.operate.output import Cell, Table, moment_of, show, tell_failed, text_of
from aerobee.cli.program import examples


@click.command(
    epilog=examples("aerobee group producers", "aerobee group producers --like shop -o json")
)
@click.option("--like", default="", help="Only groups of producers whose name has this in it.")
@broker_option
@cluster_option
@asks_cluster
async def producers(door: ClusterDoor, like: str, broker: str | None, cluster: str | None) -> None:
    """List the connected producers: by their groups, with addresses and the last heartbeat.

    Exit code 4: some brokers did not answer.
    """
    async with door.admin() as admin:
        answers = await admin.group.producers(cluster=cluster, broker=broker)
    rows: list[list[Cell]] = [
        [group, each.client_id, each.remote_ip, each.language, name,
         moment_of(each.last_update_timestamp)]
        for name, groups in sorted(answers.found.items())
        for group, found in sorted(groups.items())
        if like in group
        for each in found
    ]  # fmt: skip
    heads = ("group", "client_id", "address", "language", "broker", "heard")
    show(Table(heads, sorted(rows, key=lambda row: (str(row[0]), str(row[1])))), door.output)
    tell_failed(answers.failed)


@click.command(
    epilog=examples("aerobee group members billing", "aerobee group threads billing 10.0.0.7@4711")
)
@click.argument("name")
@click.argument("client_id")
@asks_cluster
async def threads(door: ClusterDoor, name: str, client_id: str) -> None:
    """Show where each thread of a member of group NAME is: why it does not go on.

    CLIENT_ID is one of `aerobee group members NAME`. Java's members tell it, and Aerobee's of their
    tasks; -o json has their settings as well.
    """
    async with door.admin() as admin:
        info = await admin.group.stacks(name, client_id)
    if door.output in (None, "table", "text"):
        for line in (info.jstack or "it tells nothing of its threads").splitlines():
            click.echo(text_of(line))
        return
    rows: list[list[Cell]] = [[key, value] for key, value in sorted(info.properties.items())]
    show(Table(("key", "value"), [*rows, ["jstack", info.jstack]]), door.output)
