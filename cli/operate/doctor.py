"""`aerobee doctor`: why clients get no route, or no messages."""

from typing import Final

import click

from aerobee.cli.operate.cluster_door import ClusterDoor, asks_cluster
from aerobee.cli.operate.output import Cell, Table, show
from aerobee.cli.program import EXIT_FAILURE, examples

ORDER: Final = {"error": 0, "warning": 1, "ok": 2}


@click.command(
    epilog=examples(
        "aerobee doctor",
        "aerobee doctor --topic orders --group billing",
        "aerobee doctor -o json",
    )
)
@click.option("--topic", help="Look for its route, and whether clients may use it.")
@click.option("--group", help="Look at its members, and whether they want the same.")
@asks_cluster
async def doctor(door: ClusterDoor, topic: str | None, group: str | None) -> None:
    """Look at nameservers and brokers as a client on this machine meets them, and say what to do.

    Nameservers that do not answer or know different things; brokers that tell clients an address
    that leads nowhere; clocks, disks, permissions; a topic without a route; a group whose members
    want different things. Exit code 1: something is wrong.
    """
    async with door.admin() as admin:
        found = await admin.doctor.examine(topic=topic, group=group)
    found.sort(key=lambda each: ORDER[each.state])
    rows: list[list[Cell]] = [[each.state, each.where, each.what, each.do] for each in found]
    show(Table(("state", "where", "what", "do"), rows), door.output)
    if any(each.state == "error" for each in found):
        raise SystemExit(EXIT_FAILURE)
