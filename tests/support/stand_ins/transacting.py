"""A transaction producer of a fake cluster: what it is asked, and what brokers hear of it."""

from typing import Any

from aerobee.client import (
    HalfMessage,
    ReceivedMessage,
    TransactionListener,
    TransactionProducer,
    TransactionSettings,
    TransactionState,
)
from support.stand_ins.fake_cluster import FakeCluster
from support.stand_ins.fake_transactions import ends
from support.waiting import until


class Answers(TransactionListener):
    """Says the same of every transaction, and does what a test wants where it is executed."""

    def __init__(self, state: Any = TransactionState.COMMIT) -> None:
        self.state = state
        self.asked: list[ReceivedMessage] = []

    async def execute(self, half: HalfMessage, argument: Any) -> Any:
        """Raise what is given, or answer it."""
        if isinstance(argument, Exception):
            raise argument
        return argument

    async def check(self, message: ReceivedMessage) -> Any:
        """Answer, or raise what is given."""
        self.asked.append(message)
        if isinstance(self.state, Exception):
            raise self.state
        return self.state


def producer(
    cluster: FakeCluster, listener: TransactionListener | None = None, **settings: Any
) -> TransactionProducer:
    """Return a producer of group "tg"."""
    return TransactionProducer(
        "tg",
        namesrv=cluster.namesrv,
        listener=listener or Answers(),
        settings=TransactionSettings(**settings),
    )


def told(cluster: FakeCluster) -> list[int]:
    """Return what brokers were told, one after the other."""
    return [end.commit_or_rollback for broker in cluster.brokers for end in ends(broker)]


async def one_told(cluster: FakeCluster) -> int:
    """Wait for the first end of a transaction, and return what it said."""
    await until(lambda: told(cluster))
    (state,) = told(cluster)
    return state
