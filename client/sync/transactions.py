"""Transactions of programs that wait: a block whose end decides, a listener of plain functions."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import cast

from aerobee.client.errors import wrong_argument
from aerobee.client.hooks import SendHook
from aerobee.client.message import Message, MessageQueue
from aerobee.client.received import ReceivedMessage
from aerobee.client.sending.selectors import QueueSelector
from aerobee.client.settings import ClientSettings, TransactionSettings, given
from aerobee.client.sync.handler_threads import DaemonThreads, plain
from aerobee.client.sync.producer import Producer
from aerobee.client.transactions.half import HalfMessage
from aerobee.client.transactions.half import Transaction as AsyncTransaction
from aerobee.client.transactions.listener import TransactionListener as AsyncListener
from aerobee.client.transactions.listener import TransactionState
from aerobee.client.transactions.producer import TransactionProducer as AsyncProducer


class TransactionListener(ABC):
    """Answers for the transactions of a producer group; derive and override.

        class Orders(TransactionListener):
            def check(self, message):
                row = database.fetch(message.message_id)
                return TransactionState.COMMIT if row else TransactionState.UNKNOWN

    Any process of the group may be asked about a transaction of any other.
    """

    def execute(self, half: HalfMessage, argument: object) -> TransactionState:
        """Run the local transaction of `send_in_transaction`, in its thread; say how it ended.

        What it raises reaches the caller, and leaves the end unknown: the broker will ask.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no `execute`: override it, or use `producer.transaction`"
        )

    @abstractmethod
    def check(self, message: ReceivedMessage) -> TransactionState:
        """Say how the local transaction of a half message has ended, as stored data tell it.

        Runs in one of `TransactionSettings.check_concurrency` threads, from some seconds after the
        send on, and again while the answer is UNKNOWN. ROLLBACK is right only if the transaction
        can no longer commit. What it raises counts as UNKNOWN.
        """


class Transaction:
    """A block whose end decides about a message (`TransactionProducer.transaction`).

    Commits where the block ends, or is left by `return`, `break` or `continue`. An exception rolls
    back, unless it may hide that the local transaction has committed: KeyboardInterrupt and
    whatever else is no Exception, OSError with TimeoutError and lost connections, and all behind
    `committing` leave the end unknown, and the listener is asked. Whatever is raised goes on.
    """

    def __init__(self, producer: "TransactionProducer", inner: AsyncTransaction) -> None:
        """Be made by a producer."""
        self._producer = producer
        self._inner = inner

    def __enter__(self) -> HalfMessage:
        """Store the half message; raises what `send` raises, and TransactionNotBegun.

        Where the answer is lost, or Ctrl-C comes, a half message may be there all the same: the
        check is asked about it.
        """
        return self._producer._run(self._inner.__aenter__())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Tell the broker; what the block raised goes on."""
        self._producer._run(self._inner.__aexit__(kind, error, trace))


class TransactionProducer(Producer):
    """Sends messages that consumers see if, and only if, a local transaction succeeds.

        with TransactionProducer("orders", namesrv=..., listener=Orders()) as producer:
            with producer.transaction(Message("orders", b"paid")) as half:
                database.pay(order, message_id=half.message_id)

    The message is stored first, as a half that nobody sees; the end of the block commits it, an
    exception rolls it back. Whatever is lost on the way, the broker asks a producer of the group,
    whose `listener` answers by stored data. Other sends are those of a `Producer`.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        listener: TransactionListener,
        settings: TransactionSettings | None = None,
        client: ClientSettings | None = None,
        hooks: Sequence[SendHook] = (),
    ) -> None:
        """Describe the producer; nothing happens before `start`.

        Each member of `group` is asked about the transactions of all: their listeners look at the
        same data. Raises InvalidMessage for a bad group, InvalidUse for an async listener.
        """
        settings = given("settings", settings, TransactionSettings)
        if not isinstance(listener, TransactionListener):
            raise wrong_argument("listener", "a TransactionListener of sync", listener)
        plain(listener.check, "check")
        plain(listener.execute, "execute")
        self._threads = DaemonThreads(settings.check_concurrency, f"{group}-check")
        self._deciding = AsyncProducer(
            group, namesrv=namesrv, listener=_Asking(listener, self._threads), settings=settings,
            client=client, hooks=hooks,
        )  # fmt: skip
        self._wrap(self._deciding, hooks)
        self.transactions = settings
        self._listener = listener

    def transaction(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        key: str | int | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> Transaction:
        """Return a block for `with`, whose end decides whether consumers see the message.

            with producer.transaction(Message("orders", b"paid")) as half:
                ...  # an exception rolls back; half.decide(TransactionState.ROLLBACK) does, too

        Queue, key, selector and time are those of `send`. Entering raises what `send` raises, and
        TransactionNotBegun; InvalidMessage for a delay, which transactions do not have. See
        `Transaction` for what an exception means. Where the broker cannot be told of the end
        nothing is raised: it asks (`half.told`).
        """
        inner = self._deciding.transaction(
            message, queue=queue, key=key, selector=selector, timeout_ms=timeout_ms
        )
        return Transaction(self, inner)

    def send_in_transaction(
        self,
        message: Message,
        argument: object = None,
        *,
        key: str | int | None = None,
        timeout_ms: int | None = None,
    ) -> HalfMessage:
        """Send a half message, run the listener's `execute`, and tell the broker how that ended.

            half = producer.send_in_transaction(Message("orders", b"paid"), order)
            print(half.state, half.result.message_id)

        `execute` runs in the calling thread, to which its database connection may belong. Raises
        what entering a `transaction` raises, and what `execute` raises; the end is unknown then,
        and the broker asks.
        """
        with self.transaction(message, key=key, timeout_ms=timeout_ms) as half:
            half.committing()
            state = self._listener.execute(half, argument)
            known = isinstance(state, TransactionState)
            half.decide(state if known else TransactionState.UNKNOWN)
        return half

    def _threads_of(self) -> list[DaemonThreads]:
        return [self._threads]


class _Asking(AsyncListener):
    """A listener's plain functions as the asyncio producer asks for them."""

    def __init__(self, listener: TransactionListener, threads: DaemonThreads) -> None:
        self._listener = listener
        self._threads = threads

    async def check(self, message: ReceivedMessage) -> TransactionState:
        """Ask in a thread."""
        answer = await self._threads.call(self._listener.check, message)
        return cast(TransactionState, answer)  # whatever else it is counts as UNKNOWN
