"""Transactions whose listener is made of plain functions; requests, and replies from handlers."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.stand_ins.fake_transactions import ends

from aerobee.client.sync import (
    ConsumeFrom,
    HalfMessage,
    InvalidUse,
    Message,
    NoReply,
    PushConsumer,
    ReceivedMessage,
    ReplierRefused,
    RequestProducer,
    TransactionListener,
    TransactionProducer,
    TransactionState,
)
from aerobee.remoting.codes import SysFlag

T = TypeVar("T")


class Orders(TransactionListener):
    """Does what it is told, and knows in which thread."""

    def __init__(self) -> None:
        self.executing: list[threading.Thread] = []
        self.checked: list[tuple[bytes, bool]] = []

    def execute(self, half: HalfMessage, argument: object) -> TransactionState:
        """End as the argument says."""
        self.executing.append(threading.current_thread())
        assert isinstance(argument, TransactionState)
        return argument

    def check(self, message: ReceivedMessage) -> TransactionState:
        """Commit."""
        self.checked.append((message.body, threading.current_thread().daemon))
        return TransactionState.COMMIT


async def in_thread(work: Callable[[], T]) -> T:
    """Do what waits while the cluster goes on in this loop."""
    return await asyncio.wait_for(asyncio.to_thread(work), 30)


async def test_a_block_decides(cluster: FakeCluster) -> None:
    """Its end commits, an exception rolls back, what is unknown is asked about in a thread."""
    cluster.create("orders", 1)
    orders = Orders()

    def work() -> None:
        with TransactionProducer("placing", namesrv=cluster.namesrv, listener=orders) as producer:
            with producer.transaction(Message("orders", b"commits")) as half:
                assert half.message_id
            block = producer.transaction(Message("orders", b"rolls back"))
            with pytest.raises(ValueError, match="no"), block:
                raise ValueError("no")
            block = producer.transaction(Message("orders", b"unknown"))
            with pytest.raises(KeyboardInterrupt), block:
                raise KeyboardInterrupt
            block = producer.transaction(Message("orders", b"returns"))
            with block:
                pass
            with pytest.raises(InvalidUse, match="used once"), block:
                pass
            state = TransactionState.ROLLBACK
            half = producer.send_in_transaction(Message("orders", b"executed"), state)
            assert half.state is state and half.told

    await in_thread(work)
    states = sorted(end.commit_or_rollback for each in cluster.brokers for end in ends(each))
    assert states.count(SysFlag.TRANSACTION_COMMIT) == 2
    assert states.count(SysFlag.TRANSACTION_ROLLBACK) == 2
    assert len(orders.executing) == 1


def test_async_listeners_are_refused(namesrv: str) -> None:
    """They would never be awaited."""

    class Wrong(TransactionListener):
        async def check(  # type: ignore[override]
            self, message: ReceivedMessage
        ) -> TransactionState:
            return TransactionState.COMMIT

    with pytest.raises(InvalidUse, match="is async"):
        TransactionProducer("g", namesrv=namesrv, listener=Wrong())


def test_checks_are_answered_in_threads(namesrv: str) -> None:
    """A broker of ours asks about what was left open, and delivers it then."""
    orders, delivered = Orders(), threading.Event()
    consumer = PushConsumer("checked", namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe("checked", lambda message: delivered.set())
    with TransactionProducer("checking", namesrv=namesrv, listener=orders) as producer, consumer:
        with producer.transaction(Message("checked", b"left open")) as half:
            half.decide(TransactionState.UNKNOWN)
        assert delivered.wait(30)
    assert orders.checked[0] == (b"left open", True)


def test_requests_and_replies(namesrv: str) -> None:
    """Both sides in one process; a refusal and a silence are told apart."""
    with RequestProducer("askers", namesrv=namesrv) as producer:

        def handle(request: ReceivedMessage) -> None:
            if request.body == b"apples":
                producer.reply(request, b"3.20")
            elif request.body == b"stones":
                producer.reply(request, b"-", refusal="no such fruit")

        consumer = PushConsumer("price-list", namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
        consumer.subscribe("price", handle)
        with consumer:
            assert producer.request(Message("price", b"apples"), timeout_ms=20_000).body == b"3.20"
            with pytest.raises(ReplierRefused, match="no such fruit"):
                producer.request(Message("price", b"stones"), timeout_ms=20_000)
            with pytest.raises(NoReply):
                producer.request(Message("price", b"?"), timeout_ms=100)
