"""`aerobee status` and `aerobee create-topic`: a look at a cluster, and one change to it."""

import asyncio

import click

from aerobee.cli.cluster_view import ClusterView, look
from aerobee.cli.program import Failure, examples

namesrv_option = click.option(
    "-n",
    "--namesrv-addr",
    "namesrv",
    default="127.0.0.1:9876",
    show_default=True,
    envvar=["AEROBEE_NAMESRV_ADDR", "NAMESRV_ADDR"],
    help="A nameserver, host:port.",
)


@click.command(epilog=examples("aerobee status", "aerobee status -n 10.0.0.1:9876"))
@click.option("--all", "everything", is_flag=True, help="RocketMQ's own topics, too.")
@namesrv_option
def status(namesrv: str, everything: bool) -> None:
    """Show the brokers and topics that a nameserver knows."""
    view = asyncio.run(look(_first(namesrv)))
    for cluster, name, broker_id, address in view.brokers:
        click.echo(f"broker  {cluster:<20} {name:<20} {broker_id:>3}  {address}")
    hidden = frozenset() if everything else _system_topics(view)
    for topic, queues in view.topics.items():
        if topic in hidden:
            continue
        places = ", ".join(f"{name} {count}" for name, count in sorted(queues.items()))
        click.echo(f"topic   {topic:<41} queues: {places or 'none'}")
    if not view.brokers:
        raise Failure(f"no broker has registered with {_first(namesrv)}")


@click.command(
    "create-topic", epilog=examples("aerobee create-topic orders", "aerobee create-topic o -q 16")
)
@click.argument("topic")
@click.option(
    "-q",
    "--queues",
    type=click.IntRange(1, 32767),
    default=8,
    show_default=True,
    help="Queues on each broker.",
)
@namesrv_option
def create_topic(topic: str, queues: int, namesrv: str) -> None:
    """Make TOPIC, or change its number of queues, on every master broker."""
    view = asyncio.run(_create(_first(namesrv), topic, queues))
    click.echo(f"{topic}: {queues} queues on {', '.join(each[1] for each in _masters(view))}")


async def _create(namesrv: str, topic: str, queues: int) -> ClusterView:
    """Make the topic on every master that the nameserver knows."""
    from aerobee.testing.topics import create_topic as create

    view = await look(namesrv)
    if not _masters(view):
        raise Failure(f"no broker has registered with {namesrv}")
    for _, _, _, address in _masters(view):
        await create(address, topic, queues)
    return view


def _masters(view: ClusterView) -> list[tuple[str, str, int, str]]:
    """Return the brokers that take writes."""
    return [broker for broker in view.brokers if broker[2] == 0]


def _system_topics(view: ClusterView) -> frozenset[str]:
    """Name the topics that brokers make for themselves."""
    from aerobee.broker.settings import BrokerSettings
    from aerobee.broker.system_topics import system_topic_names

    return frozenset().union(
        *(
            system_topic_names(BrokerSettings(broker_cluster_name=cluster, broker_name=name))
            for cluster, name, _, _ in view.brokers
        )
    )


def _first(namesrv: str) -> str:
    """Return the first of the nameservers: they all know the same."""
    return namesrv.split(";")[0].strip()
