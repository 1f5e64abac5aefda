"""Our clients with a broker that asks who they are: whatever they do is signed."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.features.access import ASKED, ROOT, SECRET
from support.waiting import until

from aerobee.client import (
    BrokerRefused,
    ClientSettings,
    ConsumeFrom,
    InvalidSetting,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    SendFailed,
    SessionCredentials,
    TransactionListener,
    TransactionProducer,
    TransactionState,
)
from aerobee.client.cluster.directory import Cluster
from aerobee.testing.cluster import EmbeddedCluster

SIGNS = ClientSettings(credentials=SessionCredentials(ROOT, SECRET))
WRONG = ClientSettings(credentials=SessionCredentials(ROOT, "guessed"))


class Commits(TransactionListener):
    """Answers checks, of which there are none here."""

    async def check(self, message: ReceivedMessage) -> TransactionState:
        """Commit whatever is asked for."""
        return TransactionState.COMMIT


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    """A nameserver and a broker that asks."""
    cluster = EmbeddedCluster(root=tmp_path, broker_settings=ASKED)
    await cluster.start()
    yield cluster
    await cluster.stop()


async def test_what_is_sent_is_consumed(cluster: EmbeddedCluster) -> None:
    """One by one, many at once, one-way, in a batch; by a push consumer, and by pulls."""
    seen: list[bytes] = []

    async def handle(message: ReceivedMessage) -> None:
        seen.append(message.body)

    namesrv = cluster.namesrv_addr
    async with Producer("p", namesrv=namesrv, client=SIGNS) as producer:
        await producer.send(Message("t", b"one"))
        handles = [producer.send_soon(Message("t", b"%d" % each)) for each in range(50)]
        await asyncio.gather(*handles)
        await producer.send_many([Message("t", b"b%d" % each) for each in range(3)])
        await producer.send_oneway(Message("t", b"perhaps"))
        consumer = PushConsumer("g", namesrv=namesrv, client=SIGNS, consume_from=ConsumeFrom.FIRST)
        consumer.subscribe("t", handle)
        async with consumer:
            await until(lambda: len(seen) == 55, what="all are consumed")
        async with PullConsumer("h", namesrv=namesrv, client=SIGNS) as puller:
            pulled = [
                message.body
                for queue in await puller.fetch_queues("t")
                for message in (await puller.pull(queue, 0)).messages
            ]
    assert sorted(pulled) == sorted(seen)


async def test_a_transaction_is_committed(cluster: EmbeddedCluster) -> None:
    """Half message and END are signed, too."""
    namesrv = cluster.namesrv_addr
    async with TransactionProducer(
        "tx", namesrv=namesrv, client=SIGNS, listener=Commits()
    ) as producer:
        async with producer.transaction(Message("t", b"tx")):
            pass
        store = cluster.brokers[0].store
        await until(
            lambda: sum(store.queue("t", each).max_offset for each in range(4)) == 1,
            what="it is committed",
        )


async def test_who_is_refused_hears_why(cluster: EmbeddedCluster) -> None:
    """A wrong secret, and none at all."""
    for settings, text in (
        (WRONG, "check signature failed"),
        (ClientSettings(), "username cannot be null"),
    ):
        async with Producer("p", namesrv=cluster.namesrv_addr, client=settings) as producer:
            with pytest.raises((BrokerRefused, SendFailed), match=text):
                await producer.send(Message("t", b"x"))


async def test_tools_sign(cluster: EmbeddedCluster) -> None:
    """Making a topic."""
    async with Cluster(cluster.namesrv_addr, settings=SIGNS) as tools:
        await tools.create_topic("made", queues=2)
    assert cluster.brokers[0].context.tables.topics.get("made") is not None


def test_credentials_are_a_value() -> None:
    """Nothing else passes for them, and no secret is shown."""
    assert SECRET not in repr(SIGNS)
    with pytest.raises(InvalidSetting):
        ClientSettings(credentials="root:secret")  # type: ignore[arg-type]
