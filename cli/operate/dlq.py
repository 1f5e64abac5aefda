"""`aerobee dlq`: dead letters listed, shown, sent again."""

import click

from aerobee.admin.client import AdminClient
from aerobee.admin.copies import GROUP_MAX, TopicCopy
from aerobee.admin.dead_letters import (
    RESENDS_MAX,
    origin_topic,
    reason_of,
    resend_rule,
)
from aerobee.admin.groups import RESEND_PREFIX
from aerobee.admin.reading import MessageFilter, QueueSpan
from aerobee.cli.operate.cluster_door import ClusterDoor, asks_cluster, confirm, yes_option
from aerobee.cli.operate.copies_run import run_copy
from aerobee.cli.operate.output import Cell, Table, moment_of, show, tell_failed
from aerobee.cli.program import examples
from aerobee.client.errors import InvalidUse
from aerobee.remoting.words import DLQ_PREFIX


@click.group(
    epilog=examples(
        "aerobee dlq list",
        "aerobee dlq show billing --limit 5",
        "aerobee dlq resend billing --limit 100",
    )
)
def dlq() -> None:
    """Dead letters: messages that a group failed to handle as often as it may try."""


@dlq.command("list", epilog=examples("aerobee dlq list -o json"))
@asks_cluster
async def list_dead_letters(door: ClusterDoor) -> None:
    """List the groups that have dead letters."""
    async with door.admin() as admin:
        found, failed = await admin.dead_letter.groups()
    rows: list[list[Cell]] = [
        [each.group, each.messages, moment_of(each.newest_ms)] for each in found
    ]
    show(Table(("group", "messages", "newest"), rows), door.output)
    tell_failed(failed)


@dlq.command(
    "show",
    epilog=examples("aerobee dlq show billing", "aerobee message browse %DLQ%billing -o json"),
)
@click.argument("group")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@asks_cluster
async def show_dead_letters(door: ClusterDoor, group: str, limit: int) -> None:
    """Show the dead letters of GROUP, the oldest first: where each is from, and why it is here.

    Bodies and properties shows `aerobee message browse %DLQ%GROUP`.
    """
    rows: list[list[Cell]] = []
    async with door.admin() as admin:
        spans = await _letters(admin, group)
        async for each in admin.message.browse(spans, MessageFilter()):
            rows.append(
                [moment_of(each.store_timestamp_ms), origin_topic(each), each.message_id,
                 " ".join(each.keys), reason_of(each)]
            )  # fmt: skip
            if len(rows) == limit:
                break
    show(Table(("died", "topic", "message_id", "keys", "reason"), rows), door.output)


@dlq.command(
    epilog=examples(
        "aerobee dlq resend billing",
        "aerobee dlq resend billing --limit 10 --yes",
        "aerobee dlq resend billing --to-topic        # all groups of the topic get them",
    )
)
@click.argument("group")
@click.option("--to-topic", is_flag=True,
              help="To the topic it was first sent to: every group gets it again.")  # fmt: skip
@click.option("--resends-max", type=click.IntRange(1, 1_000), default=RESENDS_MAX,
              show_default=True, help="Leave out what was sent again so often.")  # fmt: skip
@click.option("--limit", type=click.IntRange(1), help="At most so many.")
@click.option("--name", help="Name under which this keeps its place. [default: of the group]")
@yes_option
@asks_cluster
async def resend(
    door: ClusterDoor,
    group: str,
    to_topic: bool,
    resends_max: int,
    limit: int | None,
    name: str | None,
    yes: bool,
) -> None:
    """Give GROUP its dead letters again, each once, from where the last resend ended.

    They go to GROUP alone, by its retry topic. One that fails again comes back as a new dead
    letter, and is left out when it has been sent again --resends-max times: AEROBEE_RESENDS among
    its properties counts. The dead letters themselves stay where they are.
    """
    name = name or RESEND_PREFIX + group
    if len(name) > GROUP_MAX:
        raise InvalidUse(f"{name!r} is longer than {GROUP_MAX} characters: give a --name")
    async with door.admin() as admin:
        if not (spans := await _letters(admin, group)):
            click.echo("0 sent")
            return
        count = sum(span.end - span.first for span in spans)
        where = "the topics they came from" if to_topic else f"group {group}"
        confirm(f"Send what is new of {count:,} dead letters to {where}?", yes)
        rule = resend_rule(group, to_topic=to_topic, resends_max=resends_max)
        job = TopicCopy(admin.copy_end, admin.copy_end, DLQ_PREFIX + group, name, rule)
        await run_copy(door, job, limit)


async def _letters(admin: AdminClient, group: str) -> list[QueueSpan]:
    """Return where a group's dead letters are, nothing while it never had any.

    Raises InvalidUse for a group that is not there.
    """
    if await admin.route(DLQ_PREFIX + group) is None:
        await admin.group.describe(group, owners=False)
        return []
    return await admin.message.spans(DLQ_PREFIX + group)
