"""Who answers a broker that asks what became of a half message."""

from collections import defaultdict
from typing import Protocol

from aerobee.client.received import ReceivedMessage
from aerobee.remoting.headers.transactions import CheckTransactionStateRequest
from aerobee.remoting.net.connection import Connection


class TransactionChecker(Protocol):
    """A producer of a group that knows how its transactions ended (MQProducerInner.java)."""

    group: str

    def check_topics(self) -> frozenset[str]:
        """Topics whose brokers are to know of the group, whether it has sent to them or not."""
        ...

    def is_deciding(self, message_id: str) -> bool:
        """Whether this one's program is at work at that transaction right now."""
        ...

    def check(
        self,
        asked: CheckTransactionStateRequest,
        message: ReceivedMessage,
        connection: Connection,
    ) -> None:
        """See to it that the broker on `connection` gets an answer, later."""
        ...


class Checkers:
    """The transaction producers of one client id, by group: any of a group answers for it."""

    def __init__(self) -> None:
        self._by_group: dict[str, list[TransactionChecker]] = defaultdict(list)

    def add(self, checker: TransactionChecker) -> None:
        """Let one be asked from now on."""
        self._by_group[checker.group].append(checker)

    def remove(self, checker: TransactionChecker) -> None:
        """Ask it no more; nothing where it was not there."""
        group = self._by_group.get(checker.group, [])
        if checker in group:
            group.remove(checker)
        if not group:
            self._by_group.pop(checker.group, None)

    def topics(self) -> set[str]:
        """Topics whose routes have to be kept fresh."""
        return {
            topic
            for group in self._by_group.values()
            for each in group
            for topic in each.check_topics()
        }

    def find(self, group: str, message_id: str) -> TransactionChecker | None:
        """Return who is to be asked about a half message: best who is at work at it."""
        found = self._by_group.get(group)
        if not found:
            return None
        return next((each for each in found if each.is_deciding(message_id)), found[-1])
