"""`aerobee group`: list, describe, members, create, alter, delete."""

from collections import Counter
from typing import Any, Final

import click

from aerobee.admin.client import AdminClient
from aerobee.admin.groups import GroupDescription, is_own_group
from aerobee.cli.operate.cluster_door import (
    ClusterDoor,
    asks_cluster,
    broker_option,
    cluster_option,
    confirm,
    watch,
    yes_option,
)
from aerobee.cli.operate.members import producers, threads
from aerobee.cli.operate.output import Cell, Table, moment_of, show, tell_failed
from aerobee.cli.program import examples
from aerobee.remoting.bodies import SubscriptionGroupConfig
from aerobee.remoting.words import DLQ_PREFIX, RETRY_PREFIX

WATCH_MIN_S: Final = 0.2

watch_option = click.option(
    "-w",
    "--watch",
    "watch_s",
    type=click.FloatRange(WATCH_MIN_S),
    metavar="SECONDS",
    help="Ask again every so many seconds, until Ctrl-C.",
)


@click.group(
    epilog=examples(
        "aerobee group list",
        "aerobee group describe billing --watch 2",
        "aerobee group members billing -o json",
        "aerobee group delete billing",
    )
)
def group() -> None:
    """Consumer groups: who is in them, how far they are."""


@group.command("list", epilog=examples("aerobee group list", "aerobee group list --like bill"))
@click.option("--all", "everything", is_flag=True, help="Groups of brokers and tools, too.")
@click.option("--like", default="", help="Only groups whose name has this in it.")
@broker_option
@cluster_option
@asks_cluster
async def list_groups(
    door: ClusterDoor, everything: bool, like: str, broker: str | None, cluster: str | None
) -> None:
    """List consumer groups with their settings.

    How far one is says `aerobee group describe`. Exit code 4: some brokers did not answer.
    """
    async with door.admin() as admin:
        answers = await admin.group.configs(cluster=cluster, broker=broker)
    found: dict[str, dict[str, SubscriptionGroupConfig]] = {}
    for name, configs in answers.found.items():
        for each, config in configs.items():
            if like in each and (everything or not is_own_group(each)):
                found.setdefault(each, {})[name] = config
    rows: list[list[Cell]] = []
    for name, by_broker in sorted(found.items()):
        config = next(iter(by_broker.values()))
        rows.append(
            [name, ",".join(sorted(by_broker)), config.consume_enable,
             config.consume_message_orderly, config.retry_max_times]
        )  # fmt: skip
    heads = ("group", "brokers", "may_consume", "ordered", "retries")
    show(Table(heads, rows), door.output, f"{len(rows)} groups")
    tell_failed(answers.failed)


@group.command(
    epilog=examples(
        "aerobee group describe billing",
        "aerobee group describe billing --watch 2",
        "aerobee group describe billing -o json | jq 'map(.lag) | add'",
    )
)
@click.argument("name")
@watch_option
@click.option("--total", is_flag=True, help="One line for each topic instead of each queue.")
@asks_cluster
async def describe(door: ClusterDoor, name: str, watch_s: float | None, total: bool) -> None:
    """Show how far a group is in each queue, and which member has it.

    `lag` counts messages that are yet to be consumed; %RETRY% queues hold those that failed and are
    tried again.
    """
    async with door.admin() as admin:

        async def once() -> None:
            found = await admin.group.describe(name)
            table = _totals(found) if total else _queues(found)
            show(table, door.output, _caption(found))
            if watch_s is None:
                tell_failed(found.failed)

        await watch(watch_s, once)


@group.command(epilog=examples("aerobee group members billing"))
@click.argument("name")
@watch_option
@asks_cluster
async def members(door: ClusterDoor, name: str, watch_s: float | None) -> None:
    """List the connected members of a group and how many queues each has."""
    async with door.admin() as admin:

        async def once() -> None:
            found = await admin.group.describe(name)
            owned = Counter(queue.owner for queue in found.queues)
            rows: list[list[Cell]] = [
                [each.client_id, each.address, each.language, each.version,
                 ",".join(each.brokers), owned[each.client_id]]
                for each in found.members
            ]  # fmt: skip
            heads = ("client_id", "address", "language", "version", "brokers", "queues")
            show(Table(heads, rows), door.output, f"{len(rows)} members")
            if watch_s is None:
                tell_failed(found.failed)

        await watch(watch_s, once)


@group.command(epilog=examples("aerobee group create billing", "aerobee group create b --ordered"))
@click.argument("name")
@click.option("--retries", type=click.IntRange(-1, 2**31 - 1), default=16, show_default=True,
              help="How often a message is tried again before it is a dead letter.")  # fmt: skip
@click.option("--ordered", is_flag=True, help="Consumed in order; for clients that ask.")
@click.option("--disabled", is_flag=True, help="It may not consume yet.")
@broker_option
@cluster_option
@asks_cluster
async def create(
    door: ClusterDoor,
    name: str,
    retries: int,
    ordered: bool,
    disabled: bool,
    broker: str | None,
    cluster: str | None,
) -> None:
    """Make a group on every master broker, or give it these settings."""
    config = SubscriptionGroupConfig(
        group_name=name,
        retry_max_times=retries,
        consume_message_orderly=ordered,
        consume_enable=not disabled,
    )
    async with door.admin() as admin:
        masters = await admin.group.create(config, cluster=cluster, broker=broker)
    click.echo(f"{name}: on {', '.join(master.name for master in masters)}")


@group.command(
    epilog=examples(
        "aerobee group alter billing --retries 3", "aerobee group alter billing --disabled"
    )
)
@click.argument("name")
@click.option(
    "--retries",
    "retry_max_times",
    type=click.IntRange(-1, 2**31 - 1),
    help="How often a message is tried again before it is a dead letter.",
)
@click.option("--ordered/--unordered", "consume_message_orderly", default=None, help="In order.")
@click.option("--enabled/--disabled", "consume_enable", default=None, help="May it consume?")
@broker_option
@cluster_option
@asks_cluster
async def alter(
    door: ClusterDoor, name: str, broker: str | None, cluster: str | None, **given: Any
) -> None:
    """Change the settings of a group wherever it is; what is not given stays as it is."""
    changes = {key: value for key, value in given.items() if value is not None}
    async with door.admin() as admin:
        changed = await admin.group.alter(name, changes, cluster=cluster, broker=broker)
    for broker_name, (before, after) in changed.items():
        was, now = _config_text(before), _config_text(after)
        click.echo(f"{broker_name}: {now if was == now else f'{was} -> {now}'}")


@group.command(
    epilog=examples("aerobee group delete billing", "aerobee group delete b --dead-letters --yes")
)
@click.argument("name")
@click.option("--dead-letters", is_flag=True, help="Its dead letters, too.")
@yes_option
@cluster_option
@asks_cluster
async def delete(
    door: ClusterDoor, name: str, dead_letters: bool, yes: bool, cluster: str | None
) -> None:
    """Delete a group that has no members: its settings, offsets, and messages to be tried again.

    Its dead letters stay without --dead-letters.
    """
    async with door.admin() as admin:
        if not yes:
            await _ask(admin, name, dead_letters)
        masters = await admin.group.delete(name, cluster=cluster, dead_letters=dead_letters)
    click.echo(f"{name}: deleted from {', '.join(master.name for master in masters)}")


for command in (producers, threads):
    group.add_command(command)


async def _ask(admin: AdminClient, name: str, dead_letters: bool) -> None:
    found = await admin.group.describe(name, owners=False)
    retried = sum(each.lag for each in found.queues if each.topic == RETRY_PREFIX + name)
    letters = f", and {DLQ_PREFIX + name}" if dead_letters else ""
    confirm(
        f"Delete group {name}, {found.lag:,} messages behind, {retried:,} of them to be tried"
        f" again{letters}?",
        False,
    )


def _config_text(config: SubscriptionGroupConfig) -> str:
    order = "in order, " if config.consume_message_orderly else ""
    enabled = "" if config.consume_enable else ", may not consume"
    return f"{order}{config.retry_max_times} retries{enabled}"


def _queues(found: GroupDescription) -> Table:
    heads = ("topic", "broker", "queue", "committed", "end", "lag", "consumed_until", "owner")
    rows: list[list[Cell]] = [
        [each.topic, each.broker, each.queue_id, each.committed, each.end, each.lag,
         moment_of(each.last_ms), each.owner]
        for each in found.queues
    ]  # fmt: skip
    return Table(heads, rows)


def _totals(found: GroupDescription) -> Table:
    lags: Counter[str] = Counter()
    oldest: dict[str, int] = {}
    for each in found.queues:
        lags[each.topic] += each.lag
        if each.last_ms:
            oldest[each.topic] = min(oldest.get(each.topic, each.last_ms), each.last_ms)
    rows: list[list[Cell]] = [
        [topic, lag, moment_of(oldest.get(topic, 0))] for topic, lag in sorted(lags.items())
    ]
    return Table(("topic", "lag", "consumed_until"), rows)


def _caption(found: GroupDescription) -> str:
    wants = [
        f"{topic}: {each.sub_string or '*'}"
        for topic, each in found.subscriptions.items()
        if not topic.startswith(RETRY_PREFIX)
    ]
    model = f", {found.message_model.lower()}" if found.message_model else ""
    head = (
        f"{found.lag:,} messages behind, {len(found.members)} members{model},"
        f" {found.pulls_per_second:.1f} pulled per second"
    )
    return "\n".join([head, *wants])
