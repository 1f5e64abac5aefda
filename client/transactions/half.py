"""One transaction: its half message, what the program decides, and how its broker is told."""

from collections.abc import Awaitable, Callable
from types import TracebackType

from aerobee.client.errors import InvalidUse, TransactionNotBegun, wrong_argument
from aerobee.client.message import Message, SendResult, SendStatus
from aerobee.client.transactions.listener import TransactionState
from aerobee.remoting.errors import ProtocolError
from aerobee.remoting.message.message_id import parse_offset_message_id


class HalfMessage:
    """A message that its broker keeps back until the local transaction has ended.

    `message_id` is the id under which consumers will see it, and checks ask for it: store it with
    the business data. `result` says where it waits. `state` is how the transaction has ended, None
    before that; `told` whether that was written to the broker, which asks where it was not.
    """

    def __init__(self, message: Message, result: SendResult) -> None:
        self.message = message
        self.result = result
        self.state: TransactionState | None = None
        self.told = False
        self._decided: TransactionState | None = None
        self._may_be_done = False
        _, _, self.position = _place(result)

    @property
    def message_id(self) -> str:
        """The id that this client gave the message, which is the transaction's as well."""
        return self.result.message_id

    def decide(self, state: TransactionState) -> None:
        """Say how the transaction ends, whatever is raised from now on.

        Raises InvalidUse once it has ended.
        """
        if not isinstance(state, TransactionState):
            raise wrong_argument("state", "a TransactionState", state)
        if self.state is not None:
            raise InvalidUse(f"transaction {self.message_id} has ended: {self.state.name}")
        self._decided = state

    def committing(self) -> None:
        """Say that the local transaction may be done from now on, whatever is raised.

            half.committing()
            connection.commit()

        An error of the commit itself does not tell whether it took place: from here on an exception
        leaves the end unknown, and the check finds out.
        """
        self._may_be_done = True

    def end(self, error: BaseException | None) -> TransactionState:
        """Return, and keep, how the transaction ends with this error, or without one."""
        if self._decided is not None:
            self.state = self._decided
        elif error is None:
            self.state = TransactionState.COMMIT
        elif self._may_be_done or _tells_nothing(error):
            self.state = TransactionState.UNKNOWN
        else:
            self.state = TransactionState.ROLLBACK
        return self.state


class Transaction:
    """A block whose end decides about a message (`TransactionProducer.transaction`).

    Commits where the block ends, or is left by `return`, `break` or `continue`. An exception rolls
    back, unless it may hide that the local transaction has committed: cancellation and whatever
    else is no Exception, OSError with TimeoutError and lost connections, and all behind
    `committing` leave the end unknown. Whatever is raised goes on.
    """

    def __init__(
        self,
        begin: Callable[[], Awaitable[HalfMessage]],
        end: Callable[[HalfMessage, BaseException | None], Awaitable[None]],
    ) -> None:
        """Be given how to store the half message, and how to tell its broker of the end."""
        self._begin = begin
        self._end = end
        self._used = False
        self._half: HalfMessage | None = None

    async def __aenter__(self) -> HalfMessage:
        """Store the half message; raises what `Producer.send` raises, and TransactionNotBegun.

        Where the answer is lost or the task cancelled, a half message may be there all the same:
        the check is asked about it.
        """
        if self._used:
            raise InvalidUse("a transaction is used once: ask the producer for another one")
        self._used = True
        half = await self._begin()
        if half.result.status is not SendStatus.SEND_OK:
            half.decide(TransactionState.ROLLBACK)
            await self._end(half, None)
            status = half.result.status.name
            raise TransactionNotBegun(half.message.topic, half.message_id, status)
        self._half = half
        return half

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Tell the broker; what the block raised goes on."""
        assert self._half is not None
        await self._end(self._half, error)


def _tells_nothing(error: BaseException) -> bool:
    """Whether an error may come from something that was done all the same."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_tells_nothing, error.exceptions))
    return isinstance(error, OSError) or not isinstance(error, Exception)


def _place(result: SendResult) -> tuple[str, int, int]:
    try:
        return parse_offset_message_id(result.offset_message_id)
    except ValueError as error:
        raise ProtocolError(f"{result.queue}: the reply to a half message: {error}") from None
