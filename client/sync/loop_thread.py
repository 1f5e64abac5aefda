"""The one event loop of a process, in a daemon thread, on which all clients that block live."""

import asyncio
import atexit
import contextlib
import logging
import os
import selectors
import sys
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

from aerobee.client.errors import InvalidUse
from aerobee.client.instance.lifetime import Lifetime
from aerobee.client.sync.calls import Call, Posted

log = logging.getLogger(__name__)

T = TypeVar("T")

HERE: Final = str(Path(__file__).parent) + os.sep
EXIT_S: Final = 10.0
"""How long the end of the interpreter may take for what is not closed; then it is left."""
CANCELLED_S: Final = 5.0
"""How long tasks may take to end with their loop, though they are cancelled."""


class LoopThread:
    """An event loop in a daemon thread, there from the first client that starts to the last close.

    Whatever other threads want of it they put into one deque: the loop is woken once for all that
    is in there. `gone` once it has ended, and in the child of a fork from the beginning.
    """

    def __init__(self) -> None:
        self.users = 0  # clients that are started; guarded by _lock
        self.gone = False
        self.calls: set[Call[Any]] = set()  # that are under way
        self.clients: set[Lifetime] = set()
        self._forked = False
        self._posted: deque[Posted] = deque()
        self._served = 0  # how many times `_serve` has begun
        self._woken = -1  # what that was when the loop was last woken: where equal, it will begin
        self._selector = selectors.DefaultSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._thread = threading.Thread(target=self._live, name="aerobee-client", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        _alive.add(self)
        self._thread.start()

    # --- from any thread ---

    def call(
        self,
        work: Coroutine[Any, Any, T],
        *,
        on_end: Callable[[], None] | None = None,
        unwanted: Callable[[T], None] | None = None,
    ) -> Call[T]:
        """Let the loop carry out a coroutine; the caller may wait for its end, or not.

        In the loop's thread `on_end` is called when it has ended, and `unwanted` with a result that
        comes though its caller was interrupted.
        """
        call = Call(self, work, on_end, unwanted)
        self.post(call)
        return call

    def post(self, posted: Posted) -> None:
        """Put something before the loop's thread.

        Takes no lock, and may be interrupted anywhere: finalizers and handlers of signals come
        this way as well, in the middle of another call of their thread.
        """
        self._posted.append(posted)
        if self.gone:
            self._refuse_all()
            return
        served = self._served
        if self._woken != served:
            try:
                self._loop.call_soon_threadsafe(self._serve)
            except RuntimeError:  # it was closed at this moment
                self._refuse_all()
            self._woken = served

    def check_may_wait(self) -> None:
        """Refuse to wait in the thread that would have to go on; warn in one that others need."""
        running = asyncio._get_running_loop()
        if running is not None:
            self._check_running(running)

    def _check_running(self, running: asyncio.AbstractEventLoop) -> None:
        if running is self._loop:
            raise InvalidUse(
                "called in the thread that answers such calls, which would wait for itself for"
                " ever: hooks, selectors and strategies run there; do it in another thread"
            )
        if "ipykernel" in sys.modules or running in _told:
            return  # cells of a notebook have their kernel wait, whatever they do
        _told.add(running)
        warnings.warn(
            "aerobee.client.sync waits within a running event loop, whose other tasks stand still"
            " meanwhile: use aerobee.client, or asyncio.to_thread",
            RuntimeWarning,
            stacklevel=_frames_within(),
        )

    def check_mine(self) -> None:
        """Raise InvalidUse, saying why, where this process cannot use the loop."""
        if self.gone:
            raise self.lost()

    def lost(self) -> InvalidUse:
        """Return what says why there is no loop any more."""
        if self._forked:
            return InvalidUse(
                "this client was started before a fork, in the parent process, to which its"
                " connections belong: make a new one in the child, best where it is used first"
            )
        return InvalidUse("the client's event loop has ended; make a new client")

    def give_back(self) -> None:
        """Be used by one client less; the last one ends the thread, and waits for that."""
        global _current
        with _lock:
            self.users -= 1
            last = self.users == 0
            if last and _current is self:
                _current = None
        if last:
            self.end()

    def end(self) -> None:
        """Stop serving: what is under way is cancelled, and who waits for it is told."""
        with contextlib.suppress(RuntimeError):  # closed already
            self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(CANCELLED_S + 1)

    def finish(self) -> None:
        """At the end of the interpreter: let what is under way end, then close what is open."""
        with _lock:
            self.users += 1  # so that no close ends the loop before the others have ended
        self.call(self._finish()).wait_for(EXIT_S + 1)
        self.end()

    # --- in the loop's thread ---

    def _serve(self) -> None:
        self._served += 1
        for _ in range(len(self._posted)):
            posted = self._posted.popleft()
            try:
                if self.gone:
                    posted.refuse()
                else:
                    posted.begin(self._loop)
            except Exception:
                log.exception("what another thread asked for failed")
        if self._posted:  # the loop has its turn in between
            self._loop.call_soon(self._serve)

    async def _finish(self) -> None:
        mine = asyncio.current_task()
        try:
            async with asyncio.timeout(EXIT_S):
                await asyncio.gather(*[call.over() for call in self.calls if call.task is not mine])
                closing = [_leave(client) for client in self.clients]
                await asyncio.gather(*closing, return_exceptions=True)
        except TimeoutError:
            log.warning("clients were not closed within %d s before the end of Python", EXIT_S)

    def _live(self) -> None:
        while True:
            try:
                self._loop.run_forever()
                break
            except BaseException:  # SystemExit of a hook, say: the clients of others go on
                log.exception("the loop of the clients that block was left, and goes on")
        self.gone = True
        try:
            self._end_tasks()
        except BaseException:
            log.exception("the loop of the clients that block did not end well")
        finally:
            self._refuse_all()
            for call in list(self.calls):
                call.refuse()
            self._loop.close()
            _alive.discard(self)

    def _end_tasks(self) -> None:
        loop = self._loop
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=CANCELLED_S))
        loop.run_until_complete(loop.shutdown_asyncgens())

    def _refuse_all(self) -> None:
        """Also called by threads that were too late: each call is told once."""
        while True:
            try:
                posted = self._posted.popleft()
            except IndexError:
                return
            posted.refuse()

    # --- in the child of a fork ---

    def abandon(self) -> None:
        """Take no part in what the parent goes on with: its sockets, its selector.

        Both have copies of the same open files. What the child's collector would close, or take
        out of the selector, would be the parent's; so each number leads to /dev/null from now on.
        """
        self.gone = self._forked = True
        files = [key.fd for key in (self._selector.get_map() or {}).values()]
        if hasattr(self._selector, "fileno"):  # select and poll have no file of their own
            files.append(self._selector.fileno())
        null = os.open(os.devnull, os.O_RDWR)
        for file in files:
            with contextlib.suppress(OSError):
                os.dup2(null, file, inheritable=False)
        os.close(null)
        for call in list(self.calls):  # one may wait below the handler of a signal that has forked
            call.forsake()


_lock = threading.RLock()  # a signal's handler may close a client while another one starts
_current: LoopThread | None = None
_alive: set[LoopThread] = set()  # also one that is ending while the next has begun
_told: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()  # where somebody waited
_left_behind: list[LoopThread] = []  # by forks: a collected loop would close what is the parent's


def guard() -> threading.RLock:
    """Return the lock of who uses which thread; a child has another one than its parent."""
    return _lock


def use_loop_thread() -> LoopThread:
    """Return the thread of this process, started if there is none; `give_back` ends the use."""
    global _current
    with _lock:
        thread = _current
        if thread is None or thread.gone:
            thread = LoopThread()
            thread.start()
            _current = thread
        thread.users += 1
        return thread


def _frames_within() -> int:
    """Return how many frames, from who asks, belong to this room: the next is the user's."""
    frame, levels = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(HERE):
        frame, levels = frame.f_back, levels + 1
    return levels


async def _leave(client: Lifetime) -> None:
    """Close a client that nobody closes: what it handed out last may not have been seen to."""
    unfinished = InvalidUse("never closed")
    await client.__aexit__(InvalidUse, unfinished, None)


def _in_child() -> None:
    global _lock, _current
    _lock = threading.RLock()  # another thread of the parent may have it
    for thread in list(_alive):
        thread.abandon()
    _left_behind.extend(_alive)
    _alive.clear()
    _current = None


def _at_exit() -> None:
    if _current is not None and not _current.gone:
        _current.finish()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
