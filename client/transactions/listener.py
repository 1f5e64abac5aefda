"""What a program says about its transactions."""

import enum
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from aerobee.client.received import ReceivedMessage
from aerobee.remoting.codes import SysFlag

if TYPE_CHECKING:
    from aerobee.client.transactions.half import HalfMessage


class TransactionState(enum.Enum):
    """How a local transaction has ended (LocalTransactionState.java)."""

    COMMIT = SysFlag.TRANSACTION_COMMIT
    ROLLBACK = SysFlag.TRANSACTION_ROLLBACK
    UNKNOWN = SysFlag.TRANSACTION_NONE  # not yet, or nobody can tell: the broker asks (again)


class TransactionListener(ABC):
    """Answers for the transactions of a producer group; derive and override.

        class Orders(TransactionListener):
            async def check(self, message):
                row = await database.fetch(message.message_id)
                return TransactionState.COMMIT if row else TransactionState.UNKNOWN

    Any process of the group may be asked about a transaction of any other (TransactionListener in
    Java).
    """

    async def execute(self, half: "HalfMessage", argument: object) -> TransactionState:
        """Run the local transaction of `send_in_transaction`, and say how it ended.

        What it raises reaches the caller, and leaves the end unknown: the broker will ask.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no `execute`: override it, or use `producer.transaction`"
        )

    @abstractmethod
    async def check(self, message: ReceivedMessage) -> TransactionState:
        """Say how the local transaction of a half message has ended, as stored data tell it.

        It is asked from some seconds after the send on, and again while the answer is UNKNOWN (the
        broker gives up after 15 times by default). ROLLBACK is right only if the transaction can no
        longer commit. What it raises counts as UNKNOWN.
        """
