"""`aerobee message track`: where a message went, and who has consumed it."""

import click

from aerobee.admin.client import AdminClient
from aerobee.admin.tracks import GroupTrack, MessageTrack
from aerobee.cli.operate.cluster_door import ClusterDoor, asks_cluster
from aerobee.cli.operate.output import (
    EXIT_INCOMPLETE,
    Cell,
    Table,
    moment_of,
    show,
)
from aerobee.cli.program import examples
from aerobee.client.errors import InvalidUse
from aerobee.client.received import ReceivedMessage


@click.command(
    epilog=examples(
        "aerobee message track orders --key order-1",
        "aerobee message track orders --id 7F0000010000000000000000 -o json",
    )
)
@click.argument("topic")
@click.option("--key", help="A business key; the newest message that has it.")
@click.option("--id", "message_id", help="The client's id of a message, or the broker's.")
@asks_cluster
async def track(door: ClusterDoor, topic: str, key: str | None, message_id: str | None) -> None:
    """Show the path of a message of TOPIC: sent, waiting, consumed by whom, retried, dead.

    What clients told of it (enableTrace) stands among it. Exit code 4: not all could be asked.
    """
    async with door.admin() as admin:
        message = await _found(admin, topic, key, message_id)
        found = await admin.track.of(message)
    heads = ("at", "what", "group", "topic", "broker", "queue", "offset", "more")
    show(Table(heads, _rows(found)), door.output, f"{found.message_id} of {found.topic}")
    for problem in found.problems:
        click.echo(f"warning: {problem}", err=True)
    if found.groups_left_out:
        click.echo(f"warning: {found.groups_left_out} more groups were not asked", err=True)
    if found.problems or found.groups_left_out:
        raise SystemExit(EXIT_INCOMPLETE)


async def _found(
    admin: AdminClient, topic: str, key: str | None, message_id: str | None
) -> ReceivedMessage:
    found = await admin.message.find(topic, key=key, message_id=message_id)
    if not found.messages:
        raise InvalidUse(f"no message of {topic!r} has that {'key' if key else 'id'}")
    return found.messages[-1]


def _rows(found: MessageTrack) -> list[list[Cell]]:
    timed: list[tuple[int, list[Cell]]] = [
        (each.stored_ms, ["", each.kind.value, "", each.topic, each.broker, each.queue_id,
                          each.offset, ""])
        for each in found.records
    ]  # fmt: skip
    for group in found.groups:
        timed += [
            (each.stored_ms, ["", each.kind.value, group.group, each.topic, each.broker,
                              each.queue_id, each.offset, f"attempt {each.attempt}"])
            for each in group.records
        ]  # fmt: skip
    timed += [
        (each.at_ms, ["", f"told: {each.what}", each.group, "", "", None, None,
                      _told(each.host, each.cost_ms, each.succeeded)])
        for each in found.traces
    ]  # fmt: skip
    timed.sort(key=lambda each: each[0])
    rows = [[moment_of(at_ms), *row[1:]] for at_ms, row in timed]
    return [*rows, *map(_group_row, found.groups)]


def _group_row(group: GroupTrack) -> list[Cell]:
    committed = "nothing committed" if group.committed is None else f"is at {group.committed}"
    more = f"{committed}, {group.members} members"
    return [None, group.state.value, group.group, "", "", None, None, group.error or more]


def _told(host: str, cost_ms: int | None, succeeded: bool | None) -> str:
    outcome = "" if succeeded is None else ", succeeded" if succeeded else ", failed"
    took = "" if cost_ms is None else f", {cost_ms} ms"
    return f"{host}{took}{outcome}"
