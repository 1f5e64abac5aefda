"""Hooks hear of the fate of half messages, and of recalls."""

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.stand_ins.fake_transactions import ask, ends, halves
from support.stand_ins.transacting import Answers
from support.waiting import until

from aerobee.client import BrokerRefused, Message, TransactionProducer
from aerobee.client.hooks import (
    EndTransactionContext,
    EndTransactionHook,
    RecallContext,
    RecallHook,
    SendHook,
)
from aerobee.remoting.codes import RequestCode, ResponseCode


class Hears(SendHook, EndTransactionHook, RecallHook):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[EndTransactionContext | RecallContext] = []

    def ended(self, context: EndTransactionContext) -> None:
        """Note it."""
        self.told.append(context)

    def recalled(self, context: RecallContext) -> None:
        """Note it."""
        self.told.append(context)


async def test_hooks_hear_of_ends_and_recalls(cluster: FakeCluster) -> None:
    """By the block and by the check; of a recall whether it went well."""
    cluster.create("t", 1)
    hears = Hears()
    async with TransactionProducer(
        "tg", namesrv=cluster.namesrv, listener=Answers(), hooks=[hears]
    ) as producer:
        with pytest.raises(ValueError):
            async with producer.transaction(Message("t", b"x", properties={"a": "b"})) as half:
                raise ValueError
        ((broker, record),) = [
            (broker, record) for broker in cluster.brokers for record in halves(broker, "t")
        ]
        ask(broker, record)
        await until(lambda: len(ends(broker)) == 2)
        said = [each for each in hears.told if isinstance(each, EndTransactionContext)]
        assert [(each.state, each.from_check) for each in said] == [
            ("ROLLBACK_MESSAGE", False),
            ("COMMIT_MESSAGE", True),
        ]
        assert {each.message_id for each in said} == {half.message_id}
        assert said[1].message.properties == {"a": "b"}
        handle = "djEgdCBicm9rZXItYSAxNzAwMDAwMDAwMDAxIDBBMDE="
        other = cluster.brokers[0]
        other.script.clear()
        other.refuse(RequestCode.RECALL_MESSAGE, ResponseCode.NO_PERMISSION)
        with pytest.raises(BrokerRefused):
            await producer.recall(handle)
        last = hears.told[-1]
        assert isinstance(last, RecallContext) and (last.topic, last.succeeded) == ("t", False)
