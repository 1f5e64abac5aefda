"""The thread that indexes the log beside the loop, what the loop takes from it, what it tells."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal

from msgspec.structs import replace

from aerobee.storage.features.index.choice import compiled
from aerobee.storage.features.index.files import WrongIndexSizeError
from aerobee.storage.features.index.indexer import Indexer
from aerobee.storage.log.snapshot import LogSnapshot

if TYPE_CHECKING:
    from aerobee.storage.compiled.index_slices import KeyRuns

log = logging.getLogger(__name__)

TURN_BYTES: Final = 72 << 10
"""Of runs at a time in the loop: some 9,000 keys, a fifth of a millisecond at most; half as many
cost a quarter more each, a quarter of it twice as much: each time is a call and a write."""
SLICE_BYTES: Final = 8 << 20
"""Of the log per slice, some 10 ms: so long a look-up may wait for the thread, and a stop."""
SLICE_BYTES_IN_PYTHON: Final = 64 << 10
PYTHON_SHARE: Final = 10
"""Without compiled code the thread rests for nine times as long as it has kept the loop waiting."""
SYNC_INTERVAL_S: Final = 10.0
SYNC_BYTES: Final = 1 << 30
"""Of the log: so much at most is indexed again after a crash."""
RETRY_INTERVAL_S: Final = 5.0
SUM_REST_S: Final = 0.01
"""Between pieces of a file that gets its check sums, each of which takes some 5 ms."""
STOP_TIMEOUT_S: Final = 10.0


Left = Literal["nothing", "runs", "log", "busy"]
"""What is left to index: runs that the loop can take, or what the thread alone can do; busy: it is
at it, for a sync say, and what is left is seen when it has done."""


class Indexing:
    """Follows the log that it is offered, in a thread of its own; a disk's error is tried again.

    What compiled sends have made of keys (`runs`) the loop takes itself, where the thread has
    nothing to do at that moment: then nobody is woken, and the log is not read. `started` is the
    log as the start has found it, `clean` whether it was stopped cleanly.
    """

    def __init__(
        self,
        indexer: Indexer,
        started: LogSnapshot,
        *,
        clean: bool,
        runs: "KeyRuns | None" = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._indexer = indexer
        self._started = started
        self._clean = clean
        self._runs = runs if compiled() else None
        self._clock_s = clock_s
        self._offered = started
        self._wanted = threading.Condition()
        self._changing = threading.Lock()  # who has it changes the index
        self._rests = False  # the thread, until it is offered something
        self._stopping = False
        self._opened = self._may_start = False
        self._synced_s = clock_s()
        self._synced_at = 0
        self._thread: threading.Thread | None = None
        self.ended_ms = 0  # until when it has all messages, once it has ended
        self.error: str | None = None  # why nothing is indexed at this moment

    def start(self) -> None:
        """Begin; in a log without a message with the first one."""
        self._may_start = True
        if self._started.end > self._started.begin:
            self._begin()

    def _begin(self) -> None:
        """Have a thread; where none can be had that is an error like a disk's."""
        self._may_start = False
        thread = threading.Thread(target=self._work, name="message-index", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:
            self._failed(f"no thread for the index of keys: {error}")
            self._may_start = True  # with the next offer
            return
        self._thread = thread

    def take(self, log_end: int) -> Left:
        """Index a portion of what compiled sends brought, in the loop; return what is left.

        `log_end` is up to where the log is committed.
        """
        runs = self._runs
        if runs is None or not self._opened or self.error:
            return "log"
        if not runs.waiting_bytes:
            return "nothing" if self._indexer.position >= log_end else "log"
        if not self._changing.acquire(blocking=False):
            return "busy"
        try:
            if not self._opened:
                return "log"  # the thread has failed a moment ago
            taken, goes_on = self._indexer.take(runs, log_end, TURN_BYTES)
        except Exception as error:  # noqa: BLE001  the loop goes on without it
            self._caught(error)
            self._wake()
            return "log"
        finally:
            self._changing.release()
        runs.take(taken)
        if self._rests:
            self._wake()
        if runs.waiting_bytes:
            return "runs" if goes_on and taken else "log"
        return "nothing" if self._indexer.position >= log_end else "log"

    def _wake(self) -> None:
        """Have the thread look: the disk is to take what the loop has written, or did not."""
        with self._wanted:
            self._rests = False
            self._wanted.notify()

    def offer(self, log_now: LogSnapshot) -> None:
        """Tell up to where the log is committed; costs the loop nothing where it has not moved."""
        if log_now.end <= self.position and log_now.begin == self._offered.begin:
            self._offered = log_now  # by now there is nothing to do
            return
        if log_now.end != self._offered.end or log_now.begin != self._offered.begin:
            with self._wanted:
                self._offered = log_now
                self._wanted.notify()
            if self._may_start:
                self._begin()

    def stop(self, log_now: LogSnapshot) -> None:
        """Index the rest, have the disk take it, and end; what takes too long waits for a start."""
        if self._may_start and log_now.end > log_now.begin:  # messages came a moment ago
            self._begin()
        thread, self._thread = self._thread, None
        if thread is None:
            return
        with self._wanted:
            self._offered, self._stopping = log_now, True
            self._wanted.notify()
        thread.join(STOP_TIMEOUT_S)
        if thread.is_alive():
            log.warning("index_not_finished position=%d of=%d", self.position, log_now.end)

    @property
    def position(self) -> int:
        """Up to where the log is indexed."""
        return self._indexer.position if self._opened else 0

    @property
    def lag_bytes(self) -> int:
        """How much of the log is not indexed yet."""
        return max(0, self._offered.end - self.position)

    def _work(self) -> None:
        """Go on until the stop; this is the thread's part."""
        deadline_s = None
        while True:
            with self._wanted:
                if self._stopping and deadline_s is None:
                    deadline_s = self._clock_s() + STOP_TIMEOUT_S / 2
                log_now = self._offered
            if self._attempt(log_now) and (deadline_s is None or self._clock_s() < deadline_s):
                continue
            if deadline_s is not None:
                break
            if self._sum_next(log_now):
                continue
            with self._wanted:
                if not self._stopping and self._offered is log_now:
                    self._rests = True  # before the look: the loop looks here behind a change
                    rest_s = self._rest_s()
                    self._rests = rest_s is None
                    self._wanted.wait(rest_s)
                    if self.error and not self._stopping:  # offers come faster than a disk mends
                        self._wanted.wait_for(lambda: self._stopping, RETRY_INTERVAL_S)
        self._end()

    def _sum_next(self, log_now: LogSnapshot) -> bool:
        """Make the check sums of a full file that has none; False where all have been looked at."""
        if not self._opened or self.error is not None or not compiled():
            return False
        return self._indexer.sum_next(log_now.end, self._attended)

    def _attended(self) -> bool:
        """Rest, and do what has come meanwhile; return whether nothing more important is to do."""
        time.sleep(SUM_REST_S)
        while not self._stopping and self._attempt(self._offered):
            pass
        return not self._stopping

    def _attempt(self, log_now: LogSnapshot) -> bool:
        """Do one slice; return whether there is more to do at once."""
        with self._changing:
            return self._try(log_now)

    def _try(self, log_now: LogSnapshot) -> bool:
        try:
            if not self._opened:
                self._indexer.open(self._started, clean=self._clean)
                self._opened, self._clean = True, False
            more = self._slice(log_now)
            self._indexer.expire(log_now.begin)
            self._sync_if_due(log_now)
        except Exception as error:  # noqa: BLE001  the log goes on without it
            self._caught(error)
            return False
        if self.error is not None:
            log.info("index_goes_on position=%d", self._indexer.position)
            self.error = None
        return more

    def _slice(self, log_now: LogSnapshot) -> bool:
        if compiled():
            return self._indexer.advance(log_now, SLICE_BYTES)
        began_s = time.thread_time()
        more = self._indexer.advance(log_now, SLICE_BYTES_IN_PYTHON)
        if not self._stopping:
            time.sleep((time.thread_time() - began_s) * (PYTHON_SHARE - 1))
        return more

    def _rest_s(self) -> float | None:
        """For how long nothing is to be done but for an offer; None: for ever."""
        if self.error:
            return RETRY_INTERVAL_S
        return SYNC_INTERVAL_S / 2 if self._indexer.position != self._synced_at else None

    def _sync_if_due(self, log_now: LogSnapshot) -> None:
        position = self._indexer.position
        if position == self._synced_at:
            self._synced_s = self._clock_s()
            return
        since_s = self._clock_s() - self._synced_s
        if since_s >= SYNC_INTERVAL_S or position - self._synced_at >= SYNC_BYTES:
            self._indexer.sync()
            self._synced_at, self._synced_s = position, self._clock_s()

    def _end(self) -> None:
        try:
            if self._opened:
                self._indexer.sync()
                self.ended_ms = self._indexer.last_header.end_ms
        except OSError as error:
            self._failed(f"the index of keys cannot be written: {error}")
        finally:
            self._indexer.close()

    def _caught(self, error: Exception) -> None:
        """Rest, and begin at our note again: memory may hold what the disk never gets."""
        if isinstance(error, WrongIndexSizeError):
            self._failed(str(error))
            return
        if isinstance(error, OSError):
            self._failed(f"the index of keys cannot be written: {error}")
        else:
            log.exception("index_failed")
            self._failed(f"the index of keys has failed: {error}")
        if not self._opened:
            return  # what files have behind the log of the start is of what that log has lost
        offered = self._offered  # which what the loop has taken may lie behind
        end = max(offered.end, self._indexer.position)
        self._opened, self._started = False, replace(offered, end=end)

    def _failed(self, error: str) -> None:
        if error != self.error:
            log.error("index_rests reason=%s", error)
        self.error = error
