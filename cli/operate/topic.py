"""`aerobee topic`: list, describe, create, alter, delete."""

from typing import Any, Final

import click

from aerobee.admin.calls import Answers
from aerobee.admin.client import AdminClient
from aerobee.admin.topics import (
    MESSAGE_TYPE,
    MESSAGE_TYPES,
    TopicSettings,
    is_own_topic,
    perm_text,
)
from aerobee.cli.operate.cluster_door import (
    ClusterDoor,
    asks_cluster,
    broker_option,
    cluster_option,
    confirm,
    yes_option,
)
from aerobee.cli.operate.output import Cell, Table, moment_of, show, tell_failed
from aerobee.cli.operate.spreading import spread
from aerobee.cli.program import examples
from aerobee.client.errors import InvalidUse
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import Perm

QUEUES: Final = click.IntRange(1, 32_767)
PERMS: Final = {"rw": Perm.READ | Perm.WRITE, "r": Perm.READ, "w": Perm.WRITE, "-": 0}

EPILOG: Final = examples(
    "aerobee topic list",
    "aerobee topic create orders --queues 16",
    "aerobee topic describe orders -o json",
    "aerobee topic alter orders --queues 32",
    "aerobee topic delete orders --yes",
)


@click.group(epilog=EPILOG)
def topic() -> None:
    """Topics: what there is, how they stand, changes to them."""


def _settings_options(command: Any) -> Any:
    for option in (
        click.option(
            "-a",
            "--attribute",
            "attributes",
            multiple=True,
            metavar="NAME=VALUE",
            help="An attribute; NAME= removes it. Can be given several times.",
        ),
        click.option("--type", "kind", type=click.Choice(MESSAGE_TYPES), help="Which messages."),
        click.option("--perm", type=click.Choice(list(PERMS)), help="What clients may do."),
        click.option("--write-queues", type=QUEUES, help="Queues to write, where they differ."),
        click.option("-q", "--queues", type=QUEUES, help="Queues on each broker. [new ones: 8]"),
    ):
        command = option(command)
    return command


@topic.command(
    "list", epilog=examples("aerobee topic list", "aerobee topic list --all -b broker-a -o csv")
)
@click.option("--all", "everything", is_flag=True, help="RocketMQ's own topics, too.")
@click.option("--like", default="", help="Only topics whose name has this in it.")
@broker_option
@cluster_option
@asks_cluster
async def list_topics(
    door: ClusterDoor, everything: bool, like: str, broker: str | None, cluster: str | None
) -> None:
    """List topics with their queues on each broker.

    Retry and dead-letter topics of groups, and those that brokers made for themselves, are left out
    without --all. Brokers are asked for 2000 topics at a time. Exit code 4: some did not answer.
    """
    async with door.admin() as admin:
        answers = await admin.topic.configs(cluster=cluster, broker=broker)
        own = frozenset() if everything else await _names(admin)
    rows: list[list[Cell]] = [
        [name, broker_name, each.read_queue_nums, each.write_queue_nums, perm_text(each.perm),
         each.attributes.get(MESSAGE_TYPE, "")]
        for name, broker_name, each in _by_topic(answers)
        if like in name and (everything or not is_own_topic(name, own))
    ]  # fmt: skip
    heads = ("topic", "broker", "read_queues", "write_queues", "perm", "type")
    show(Table(heads, rows), door.output, f"{len({row[0] for row in rows})} topics")
    tell_failed(answers.failed)


@topic.command(epilog=examples("aerobee topic describe orders"))
@click.argument("name")
@asks_cluster
async def describe(door: ClusterDoor, name: str) -> None:
    """Show the queues of a topic: where they begin and end, and when something came last.

    On a terminal its settings on each broker and the groups that consume it stand below.
    """
    async with door.admin() as admin:
        found = await admin.topic.describe(name)
    rows: list[list[Cell]] = [
        [each.broker, each.queue_id, each.begin, each.end, each.end - each.begin,
         moment_of(each.newest_ms)]
        for each in found.queues
    ]  # fmt: skip
    lines = [f"{found.messages:,} messages, {found.puts_per_second:.1f} come per second"]
    lines += [f"{broker}: {_config_text(config)}" for broker, config in found.configs.items()]
    lines.append(f"groups: {', '.join(found.groups) or 'none'}")
    show(
        Table(("broker", "queue", "begin", "end", "messages", "newest"), rows),
        door.output,
        "\n".join(lines),
    )
    tell_failed(found.failed)


@topic.command(
    epilog=examples(
        "aerobee topic create orders",
        "aerobee topic create orders --queues 16 --type FIFO -c DefaultCluster",
        "aerobee topic create audit -a aerobee.dedup.seconds=120",
    )
)
@click.argument("name")
@_settings_options
@click.option("--if-not-exists", is_flag=True, help="Leave one that is there as it is.")
@broker_option
@cluster_option
@asks_cluster
async def create(
    door: ClusterDoor,
    name: str,
    if_not_exists: bool,
    broker: str | None,
    cluster: str | None,
    **given: Any,
) -> None:
    """Make a topic on every master broker."""
    settings = _settings(**given)
    async with door.admin() as admin:
        if if_not_exists and await admin.route(name) is not None:
            click.echo(f"{name}: there already")
            return
        masters = await admin.topic.create(name, settings, cluster=cluster, broker=broker)
    queues = settings.read_queues or 8
    click.echo(f"{name}: {queues} queues on {', '.join(master.name for master in masters)}")


@topic.command(
    epilog=examples(
        "aerobee topic alter orders --queues 32", "aerobee topic alter orders --perm r -b broker-a"
    )
)
@click.argument("name")
@_settings_options
@broker_option
@cluster_option
@asks_cluster
async def alter(
    door: ClusterDoor, name: str, broker: str | None, cluster: str | None, **given: Any
) -> None:
    """Change a topic wherever it is; what is not given stays as it is.

    Messages in queues that are taken away stay where they are, and nobody reads them: let groups
    catch up first (--write-queues), then take them from readers, too.
    """
    settings = _settings(**given)
    async with door.admin() as admin:
        changed = await admin.topic.alter(name, settings, cluster=cluster, broker=broker)
    for broker_name, (before, after) in changed.items():
        was, now = _config_text(before), _config_text(after)
        click.echo(f"{broker_name}: {now if was == now else f'{was} -> {now}'}")


@topic.command(epilog=examples("aerobee topic delete orders", "aerobee topic delete orders --yes"))
@click.argument("name")
@yes_option
@cluster_option
@asks_cluster
async def delete(door: ClusterDoor, name: str, yes: bool, cluster: str | None) -> None:
    """Delete a topic with all its messages, from brokers and nameservers.

    Deleting one that is half gone, or gone, takes away what is left.
    """
    async with door.admin() as admin:
        if await admin.route(name) is not None and not yes:
            found = await admin.topic.describe(name)
            groups = f", consumed by {', '.join(found.groups)}" if found.groups else ""
            brokers = ", ".join(found.configs)
            confirm(f"Delete {name} with {found.messages:,} messages on {brokers}{groups}?", yes)
        masters = await admin.topic.delete(name, cluster=cluster)
    click.echo(f"{name}: deleted from {', '.join(master.name for master in masters)}")


topic.add_command(spread)


async def _names(admin: AdminClient) -> frozenset[str]:
    """Name brokers and their clusters: topics are called after them."""
    return frozenset(
        name for entry in await admin.brokers() for name in (entry.name, entry.cluster)
    )


def _by_topic(answers: Answers[dict[str, TopicConfig]]) -> list[tuple[str, str, TopicConfig]]:
    found = [
        (name, broker, config)
        for broker, configs in answers.found.items()
        for name, config in configs.items()
    ]
    return sorted(found, key=lambda each: each[:2])


def _settings(
    *,
    queues: int | None,
    write_queues: int | None,
    perm: str | None,
    kind: str | None,
    attributes: tuple[str, ...],
) -> TopicSettings:
    edits: dict[str, str | None] = {} if kind is None else {MESSAGE_TYPE: kind}
    for text in attributes:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise InvalidUse(f"--attribute {text!r}: write NAME=VALUE, or NAME= to remove it")
        edits[name] = value or None
    return TopicSettings(
        read_queues=queues,
        write_queues=queues if write_queues is None else write_queues,
        perm=None if perm is None else PERMS[perm],
        attributes=edits,
    )


def _config_text(config: TopicConfig) -> str:
    text = f"{config.read_queue_nums} queues"
    if config.write_queue_nums != config.read_queue_nums:
        text = f"{config.read_queue_nums} queues to read, {config.write_queue_nums} to write"
    more = "".join(f", {name}={value}" for name, value in sorted(config.attributes.items()))
    return f"{text}, {perm_text(config.perm)}{more}"
