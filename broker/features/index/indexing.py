"""The thread that indexes the log beside the loop, what the loop takes from it, what it tells."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from aerobee.storage.features.index.choice import compiled, key_runs
from aerobee.storage.features.index.files import WrongIndexSizeError
from aerobee.storage.features.index.indexer import Indexer
from aerobee.storage.log.snapshot import LogSnapshot

if TYPE_CHECKING:
    from aerobee.storage.compiled.index_slices import KeyRuns

log = logging.getLogger(__name__)

TURN_BYTES: Final = 64 << 10
"""Of runs that the loop takes itself: some 8,000 keys, a fifth of a millisecond. More is worth
waking the thread, beside which the loop goes on."""
SLICE_BYTES: Final = 8 << 20
"""Of the log per slice, some 10 ms: so long a look-up may wait for the thread, and a stop."""
SLICE_BYTES_IN_PYTHON: Final = 64 << 10
PYTHON_SHARE: Final = 10
"""Without compiled code the thread rests for nine times as long as it has kept the loop waiting."""
SYNC_INTERVAL_S: Final = 10.0
SYNC_BYTES: Final = 4 << 30
"""Of the log: so much at most is indexed again after a crash, in one to two seconds."""
RETRY_INTERVAL_S: Final = 5.0
SUM_REST_S: Final = 0.01
"""Between pieces of a file that gets its check sums, each of which takes some 5 ms."""
STOP_TIMEOUT_S: Final = 10.0


class Indexing:
    """Follows the log that it is offered, in a thread of its own; a disk's error is tried again.

    What compiled sends have made of keys (`runs`) saves reading the log. A little of it the loop
    takes itself, where the thread has nothing to do at that moment: then nobody is woken. `started`
    is the log as the start has found it, `clean` whether it was stopped cleanly.
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
        self._runs = runs
        self._taken = None if runs is None else key_runs(runs.bytes_max)  # from it; go first
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

    def take(self, log_end: int) -> bool:
        """Index in the loop what compiled sends brought, if it is little; else it is to be offered.

        `log_end` is up to where the log is committed. False: the thread has the index, for a sync
        say, and it is to be tried again later.
        """
        waiting = self._waiting
        if not 0 < waiting <= TURN_BYTES or not self._opened or self.error:
            return True
        if not self._changing.acquire(blocking=False):
            return False
        try:
            while self._opened and self._take_runs(log_end):
                pass
        except Exception as error:  # noqa: BLE001  the loop goes on without it
            self._caught(error)
            self._wake()
            return True
        finally:
            self._changing.release()
        if self._rests:
            self._wake()
        return True

    @property
    def _waiting(self) -> int:
        """How many bytes of runs wait."""
        if self._runs is None or self._taken is None:
            return 0
        return self._taken.waiting_bytes + self._runs.waiting_bytes

    def _take_runs(self, log_end: int) -> bool:
        """Index what waits of runs; return whether there may be more of them at once.

        Who does that changes the index; meanwhile the loop adds to others.
        """
        if self._runs is None or self._taken is None:
            return False
        if not self._taken.waiting_bytes:
            self._taken.swap(self._runs)
        taken, goes_on = self._indexer.take(self._taken, log_end)
        self._taken.take(taken)
        return goes_on and taken > 0

    def _forget_runs(self) -> None:
        """Have none wait; who does that changes the index."""
        for runs in (self._runs, self._taken):
            if runs is not None:
                runs.take(runs.waiting_bytes)

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
                    if self._rests:
                        self._let_go()
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
        if self._take_runs(log_now.end):
            return True
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

    def _let_go(self) -> None:
        """Have no memory for runs while nothing comes."""
        for runs in (self._runs, self._taken):
            if runs is not None:
                runs.trim()

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
        """Rest, and begin at our note again: memory may hold what the disk never gets.

        From there on the log is read: what waits of runs would take memory for as long as it rests.
        """
        self._forget_runs()
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
