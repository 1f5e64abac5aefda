"""`aerobee status` and `aerobee create-topic`: a look at a cluster, and one change to it."""

import asyncio
from collections.abc import Iterable

import click

from aerobee.admin.client import AdminClient
from aerobee.cli.credentials import credentials_options
from aerobee.cli.program import Failure, examples
from aerobee.cli.tls_options import tls_options
from aerobee.client.cluster.directory import BrokerEntry
from aerobee.client.settings import ClientSettings
from aerobee.remoting.net.access.credentials import SessionCredentials
from aerobee.remoting.net.tls import TlsClientSettings
from aerobee.remoting.words import REPLY_SUFFIX, ROCKSDB_TOPICS, SYSTEM_PREFIX, SYSTEM_TOPICS

namesrv_option = click.option(
    "-n",
    "--namesrv-addr",
    "namesrv",
    default="127.0.0.1:9876",
    show_default=True,
    envvar=["AEROBEE_NAMESRV_ADDR", "NAMESRV_ADDR"],
    help="Nameservers, host:port joined by a semicolon.",
)


@click.command(epilog=examples("aerobee status", "aerobee status -n 10.0.0.1:9876 --tls-enable"))
@click.option("--all", "everything", is_flag=True, help="RocketMQ's own topics, too.")
@namesrv_option
@tls_options
@credentials_options
def status(
    namesrv: str,
    everything: bool,
    tls: TlsClientSettings | None,
    credentials: SessionCredentials | None,
) -> None:
    """Show the brokers and topics that a nameserver knows."""
    brokers, topics = asyncio.run(_look(namesrv, ClientSettings(tls=tls, credentials=credentials)))
    for cluster, name, broker_id, address in brokers:
        click.echo(f"broker  {cluster:<20} {name:<20} {broker_id:>3}  {address}")
    hidden = frozenset() if everything else _system_topics(brokers, topics)
    for topic, queues in topics.items():
        if topic in hidden:
            continue
        places = ", ".join(f"{name} {count}" for name, count in sorted(queues.items()))
        click.echo(f"topic   {topic:<41} queues: {places or 'none'}")
    if not brokers:
        raise Failure(f"no broker has registered with {namesrv}")


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
@tls_options
@credentials_options
def create_topic(
    topic: str,
    queues: int,
    namesrv: str,
    tls: TlsClientSettings | None,
    credentials: SessionCredentials | None,
) -> None:
    """Make TOPIC, or change its number of queues, on every master broker."""
    settings = ClientSettings(tls=tls, credentials=credentials)
    brokers = asyncio.run(_create(namesrv, topic, queues, settings))
    click.echo(f"{topic}: {queues} queues on {', '.join(broker.name for broker in brokers)}")


async def _look(
    namesrv: str, settings: ClientSettings
) -> tuple[list[BrokerEntry], dict[str, dict[str, int]]]:
    """Ask for brokers, and for topics with their queues by broker name."""
    async with AdminClient(namesrv, settings=settings) as admin:
        return await admin.brokers(), await admin.all_queues()


async def _create(
    namesrv: str, topic: str, queues: int, settings: ClientSettings
) -> list[BrokerEntry]:
    """Make the topic; return where it is."""
    async with AdminClient(namesrv, settings=settings) as admin:
        return await admin.create_topic(topic, queues)


def _system_topics(brokers: Iterable[BrokerEntry], topics: Iterable[str]) -> frozenset[str]:
    """Name the topics that brokers make for themselves."""
    made = SYSTEM_TOPICS | ROCKSDB_TOPICS
    for broker in brokers:
        made |= {broker.cluster, broker.cluster + REPLY_SUFFIX, broker.name}
    return frozenset(topic for topic in topics if topic in made or topic.startswith(SYSTEM_PREFIX))
