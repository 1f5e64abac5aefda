"""What `send_soon` returns: a message on its way, and what became of it.

`compiled/lane.pyx` has the same as C, which is used where it was built (`fast.py`); this here is
what it has to do.
"""

import enum
from asyncio import Future, InvalidStateError
from collections.abc import Callable, Generator
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any, Final, Protocol

from aerobee.client.errors import wrong_argument
from aerobee.client.message import MessageQueue, SendResult

HANDLE_BYTES: Final = 128
"""What a message that waits takes beside its body."""


class SendState(enum.Enum):
    """Where a message is."""

    WAITING = "waits"  # for its turn
    SENT = "sent"  # and not answered
    ELSEWHERE = "is sent by the checked path"
    STORED = "stored"
    FAILED = "failed"


class Bits:
    """What else is known of a message, as bits."""

    CHOSEN: Final = 1  # its queue was the user's choice
    COUNTED: Final = 2  # among what its producer holds
    WHOLE_ID: Final = 16  # it was made ready, with its id, before it came here


class SendOwner(Protocol):
    """Whom a sender tells what becomes of its messages; see soon.py."""

    def ring_of(self, queue: MessageQueue) -> Any:
        """Return the ring of the queue's connection; None where none is open."""

    def less(self) -> None:
        """No more than `wake_bytes` of the sender are held."""

    def unheard(self, handle: "Handle", error: BaseException) -> None:
        """A message failed, and nobody waits for its handle yet."""


class HandleHead(Protocol):
    """What a handle knows of its queue; see `offers.Head`."""

    sender: Any  # an `offers.Sender`
    queue: Any  # a MessageQueue, None while the message has none

    @property
    def owner(self) -> Any:
        """The `SoonSends` that is told of what becomes of its messages."""


class Handle:
    """A message that was sent soon, to be awaited or looked at.

        handle = producer.send_soon(message)
        result = await handle  # or handle.done, handle.error, handle.result()

    It has an outcome at the latest when the time of its send is over. Any number of tasks may await
    it; a task that is cancelled stops waiting, and the message goes on.
    """

    __slots__ = (
        "_begin",
        "_body",
        "_cost",
        "_keys",
        "_more",
        "_opaque",
        "_tags",
        "_traceback",
        "_waiters",
        "bits",
        "deadline_s",
        "head",
        "state",
    )

    def __init__(
        self, head: HandleHead, body: bytes | None, tags: str | None, keys: str | None, more: Any
    ) -> None:
        self.head = head
        self._body = body
        self._tags = tags
        self._keys = keys
        self._more = more  # text of properties, what the checked path needs, or the outcome
        self._waiters: list[Future[None] | Callable[[Handle], object]] = []
        self._traceback: TracebackType | None = None  # that an error came with
        self._begin = ""  # the id
        self._opaque = self._cost = 0
        self.bits = 0
        self.deadline_s = 0.0
        self.state = SendState.WAITING

    @property
    def done(self) -> bool:
        """Whether there is an outcome: it is stored, or has failed."""
        return self.state in (SendState.STORED, SendState.FAILED)

    @property
    def error(self) -> BaseException | None:
        """Why the message failed; None while it has not."""
        return self._more if self.state is SendState.FAILED else None

    @property
    def queue(self) -> MessageQueue | None:
        """The queue that it goes to, as far as known; the result has where it went."""
        queue: MessageQueue | None = self.head.queue
        return queue

    @property
    def message_id(self) -> str:
        """The client's id of the message; empty before its turn has come."""
        if self.state is SendState.STORED:
            return str(self._more.message_id)
        return self._begin

    @property
    def chosen(self) -> bool:
        """Whether its queue was chosen: by `queue`, `key` or `selector`."""
        return bool(self.bits & Bits.CHOSEN)

    @property
    def counted(self) -> bool:
        """Whether it is among what `Producer.full` looks at."""
        return bool(self.bits & Bits.COUNTED)

    @property
    def sent(self) -> bool:
        """Whether its request was written to a connection, and is not answered."""
        return self.state is SendState.SENT

    def exception(self) -> BaseException | None:
        """Return why it failed, None where it is stored; InvalidStateError before it is done."""
        if not self.done:
            raise InvalidStateError(f"{self!r} is not done")
        return self.error

    def result(self) -> SendResult:
        """Return where it went; raises why it failed, InvalidStateError before it is done."""
        if self.state is SendState.FAILED:
            raise self._more.with_traceback(self._traceback)
        if self.state is not SendState.STORED:
            raise InvalidStateError(f"{self!r} is not done")
        result: SendResult = self._more
        return result

    def add_done_callback(self, callback: "Callable[[Handle], object]") -> None:
        """Have `callback` called with the handle, by the loop, once it is done."""
        if not callable(callback) or iscoroutinefunction(callback):
            raise wrong_argument("callback", "a plain function of the handle", callback)
        if self.done:
            self.head.sender.loop.call_soon(callback, self)
        else:
            self._waiters.append(callback)

    def __await__(self) -> Generator[Any, None, SendResult]:
        """Wait until it is done; return where it went, or raise why it failed."""
        if not self.done:
            future: Future[None] = self.head.sender.loop.create_future()
            self._waiters.append(future)
            yield from future
        return self.result()

    def __repr__(self) -> str:
        """Say how far it is."""
        state = "sent" if self.state is SendState.ELSEWHERE else self.state.value
        return f"<SendHandle {state} queue={self.head.queue} id={self.message_id!r}>"

    def __reduce__(self) -> str:
        """Refuse to be copied: a copy would never hear of the message."""
        raise TypeError("a handle is that of one message, and is not copied")

    # --- for those who send it ---

    def _hold(self, more: object) -> None:
        """Leave the lane: `more` is what the checked path needs; what is kept here is let go."""
        self.state, self._more = SendState.ELSEWHERE, more
        self._body = self._tags = self._keys = None

    @property
    def _held(self) -> Any:
        """What `_hold` was given, or the Outgoing of a message that was made ready in Python."""
        return self._more

    def _parts(self) -> tuple[bytes | None, str | None, str | None, Any, str]:
        """Return body, tags, keys, the JSON text of the properties and the id."""
        return self._body, self._tags, self._keys, self._more, self._begin

    def _settle(self, outcome: SendResult | BaseException) -> None:
        """End it, by a result or an error."""
        if self.done:
            return
        failed = isinstance(outcome, BaseException)
        self._body = self._tags = self._keys = None
        self._more = outcome
        self.state = SendState.FAILED if failed else SendState.STORED
        sender = self.head.sender
        if isinstance(outcome, BaseException):
            self._traceback = outcome.__traceback__
            if self.counted and not any(map(_waits, self._waiters)):
                sender.owner.unheard(self, outcome)
        waiters, self._waiters = self._waiters, []
        if self.counted:
            sender.held -= 1
            sender.held_bytes -= self._cost
            if sender.held_bytes <= sender.wake_bytes:
                sender.owner.less()
        for waiter in waiters:
            if not isinstance(waiter, Future):
                sender.loop.call_soon(waiter, self)
            elif not waiter.done():  # else who waited was cancelled
                waiter.set_result(None)


def _waits(waiter: object) -> bool:
    """Whether it is to be told: a callback, or who was not cancelled."""
    return not (isinstance(waiter, Future) and waiter.done())
