"""From the start to the close: what every client that blocks has in common."""

import asyncio
import contextlib
import threading
import warnings
from abc import ABC
from collections.abc import Callable, Coroutine
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from aerobee.client.errors import InvalidUse
from aerobee.client.finding.found import FoundMessages
from aerobee.client.instance.lifetime import Lifetime
from aerobee.client.sync.calls import Call, Note
from aerobee.client.sync.handler_threads import DaemonThreads
from aerobee.client.sync.loop_thread import LoopThread, guard, use_loop_thread

T = TypeVar("T")
C = TypeVar("C", bound=Lifetime)


class BlockingClient(ABC, Generic[C]):
    """A client whose methods wait; use it between `start` and `close`, best by `with`.

    `_inner` is the asyncio client that does the work. It lives on the loop of the process's
    `LoopThread`, and is touched nowhere else once it is started.
    """

    _role: ClassVar[str] = "consumer"  # as errors name it

    def __init__(self, inner: C, group: str) -> None:
        self.group = group
        self._inner = inner
        self._thread: LoopThread | None = None
        self._was_closed = False
        self._waiting: set[threading.Lock] = set()  # of those who wait for the close

    @property
    def consumes(self) -> bool:
        """Whether this is a consumer of whatever kind."""
        return self._inner.consumes

    @property
    def started(self) -> bool:
        """Whether it is between its start and its close, in this process."""
        return self._thread is not None and not self._thread.gone

    def start(self) -> None:
        """Get ready, as the asyncio client's `start` does.

        The first client of a process to start brings a thread with an event loop along, which ends
        with the last one's close. Raises InvalidUse when started already.
        """
        self._start(self._inner.start)

    def trouble(self) -> list[str]:
        """Say in words what fails at the moment, as the asyncio client's `trouble` does."""
        return self._in_loop(self._inner.trouble)

    def wait_closed(self) -> None:
        """Wait until somebody has closed this client; at once where it is not started."""
        if self._thread is not None:
            self._usable()
        closed = threading.Lock()
        closed.acquire()
        while self.tell_closed(closed):
            closed.acquire()

    def tell_closed(self, lock: threading.Lock) -> bool:
        """Release a lock when this client is closed; False where it is not started.

        An Event would not do: who closes may be a signal's handler, above who waits.
        """
        self._waiting.add(lock)
        return self.started

    def _start(self, begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with guard():
            if self._thread is not None:
                if not self._thread.gone:
                    raise InvalidUse(f"the {self._role} is started already")
                self._thread.check_mine()
            thread = self._thread = use_loop_thread()
        thread.clients.add(self._inner)
        self._on_thread(thread)
        try:
            self._run(begin())
        except BaseException:
            self._let_go(thread)
            raise

    def close(self) -> None:
        """Stop as the asyncio client's `close` does, and wait for it; a second call does nothing.

        In the child of a fork nothing happens: it is the parent's to close.
        """
        self._close(self._inner.close)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self._close(lambda: self._inner.__aexit__(kind, error, trace))

    if not TYPE_CHECKING:  # checkers find it by themselves

        def __aenter__(self) -> None:
            """Say what to write instead: the mistake of who has imported the other client."""
            raise TypeError(
                f"a {type(self).__name__} of aerobee.client.sync is used by `with`; the one of"
                " aerobee.client by `async with`"
            )

        def __aexit__(self, *_: object) -> None:
            """Complete what `__aenter__` says."""

    def __del__(self) -> None:
        """Close in the background what nobody can close any more, and say that it was not."""
        thread = getattr(self, "_thread", None)  # there is none where __init__ failed
        if thread is None or thread.gone:
            return
        name = repr(self)
        self._thread = None
        thread.post(Note(_Abandoned(thread, self._inner).close_soon))
        warnings.warn(f"unclosed {name}", ResourceWarning, source=self, stacklevel=2)

    def __repr__(self) -> str:
        state = "started" if self._thread is not None else "new"
        if self._was_closed and state == "new":
            state = "closed"
        return f"<aerobee.client.sync.{type(self).__name__} {self.group!r}, {state}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError(
            f"{type(self).__name__} cannot be sent to another process: make one there, best where"
            " it is used first"
        )

    def find(
        self,
        topic: str,
        *,
        key: str | None = None,
        message_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        messages_max: int = 64,
        timeout_ms: int | None = None,
    ) -> FoundMessages:
        """Find the messages of a topic that have a key, or an id, the oldest first.

            for message in consumer.find("orders", key="order-1"):
                print(message.queue, message.queue_offset, message.body)

        `message_id` is the one that the client gave, or the broker's. Of more than `messages_max`
        the newest are found; `since` and `until` are store times with a time zone. All brokers are
        asked at the same time, for `timeout_ms` (default 6,000); `failed` of the answer names those
        that could not be asked. Raises InvalidMessage for a bad topic, InvalidUse, RouteMissing,
        and where no broker could be asked Unavailable or BrokerRefused.
        """
        return self._run(
            self._inner.find(
                topic, key=key, message_id=message_id, since=since, until=until,
                messages_max=messages_max, timeout_ms=timeout_ms,
            )
        )  # fmt: skip

    # --- for the clients ---

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the loop carry out a coroutine of the asyncio client, and wait for what comes of it.

        Raises what that raises, and InvalidUse where nobody may wait: before the start, after the
        close, in the child of a fork, in the loop's own thread.
        """
        return self._call(work).wait()

    def _call(self, work: Coroutine[Any, Any, T]) -> Call[T]:
        """Begin what `_run` waits for."""
        try:
            thread = self._usable()
        except BaseException:
            work.close()
            raise
        return thread.call(work)

    def _in_loop(self, function: Callable[[], T]) -> T:
        """Call a plain function where the asyncio client lives: at once before the start."""
        if self._thread is None:
            return function()

        async def called() -> T:
            return function()

        return self._run(called())

    def _post(self, function: Callable[[], object]) -> bool:
        """Have a plain function called where the asyncio client lives, and do not wait for that.

        From any thread, and in finalizers; False where nobody will call it: too early, or too late.
        """
        thread = self._thread
        if thread is None or thread.gone:
            return False
        thread.post(Note(function))
        return True

    def _usable(self, *, waits: bool = True) -> LoopThread:
        """Return the loop's thread for a call, which waits for it or not; raises InvalidUse."""
        thread = self._thread
        if thread is None:
            raise InvalidUse(f"the {self._role} is not started, or closed; use `with`")
        if thread.gone:
            thread.check_mine()
        if waits:
            thread.check_may_wait()
        return thread

    def begin_close(self) -> Call[None]:
        """Begin to close, and return what may be waited for; `close` ends it."""
        return self._call(self._inner.close())

    def _close(self, leave: Callable[[], Coroutine[Any, Any, None]]) -> None:
        thread = self._thread
        if thread is None:
            return
        if thread.gone:  # in the child of a fork, or at the end of the interpreter
            self._thread = None
            return
        try:
            self._call(leave()).wait()
        except InvalidUse:
            if not thread.gone:  # else somebody else closed it, and with it the last client
                raise
        finally:
            self._let_go(thread)

    def _let_go(self, thread: LoopThread) -> None:
        """Need the thread no longer; whoever comes first gives it back."""
        with guard():
            mine = self._thread is thread
            if mine:
                self._thread = None
                self._was_closed = True
        if mine:
            for threads in self._threads_of():
                threads.close()
            thread.clients.discard(self._inner)
            thread.give_back()
        while self._waiting:
            let_go(self._waiting.pop())

    def _on_thread(self, thread: LoopThread) -> None:
        """Know the loop's thread, before the start of the asyncio client."""
        for threads in self._threads_of():
            threads.begin(thread)

    def _threads_of(self) -> list[DaemonThreads]:
        """Return the threads in which this client calls its user's functions."""
        return []


def let_go(lock: threading.Lock) -> None:
    """Release a lock on which somebody may wait; a second time changes nothing."""
    with contextlib.suppress(RuntimeError):
        lock.release()


class _Abandoned:
    """An asyncio client that has lost who could close it."""

    def __init__(self, thread: LoopThread, inner: Lifetime) -> None:
        self._thread = thread
        self._inner = inner

    def close_soon(self) -> None:
        """Close it, in the loop's thread."""
        self._task = asyncio.get_running_loop().create_task(self._close())

    async def _close(self) -> None:
        lost = InvalidUse("never closed")
        try:
            await self._inner.__aexit__(InvalidUse, lost, None)
        finally:
            self._thread.clients.discard(self._inner)
            self._thread.give_back()
