"""Keeps a window of prepared space ahead of the log's end, by a helper process or in place."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from aerobee.storage.log import space_helper
from aerobee.storage.log.segment import Segment
from aerobee.storage.log.segments import Segments
from aerobee.storage.settings import MIB, StoreSettings

log = logging.getLogger(__name__)

HELPER_DEATHS_MAX: Final = 3
INLINE_STEP_BYTES: Final = MIB
WINDOW_BYTES_MIN: Final = MIB
GROWTH: Final = 3  # an order brings what lies ahead to so much of it, in time before it is used up
LEAD: Final = 4  # the next file is begun when less than such a part of a file is left
TRICKLE_BYTES: Final = 32 * MIB  # of zeros in an order that has time: the next goes by what is left


class Allocator:
    """Orders space, one stretch at a time, and advances `Segment.ready` as it is reported.

    First it is a window, then, while messages come quickly, more and more, until the rest of the
    file and the whole next one have their space, as far as the disk has room for that; where it has
    not, the window is all. With ASYNC_FLUSH the helper allocates and writes nothing; where the file
    system cannot, the window is of zeros. With SYNC_FLUSH all of it is, and what lies beyond the
    window comes by short orders that leave disk and CPU to messages. The owner watches `fileno()`
    and calls `on_readable()`; `on_progress` is called after every step. `full` is the system's
    reason while the disk refuses; each `tick` tries afresh.
    """

    def __init__(self, segments: Segments, settings: StoreSettings) -> None:
        self._segments = segments
        self._settings = settings
        self._helper: subprocess.Popen[bytes] | None = None
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        self._tail = b""
        self._ordered: Segment | None = None
        self._dropping = False
        self._ordered_until = self._asked_at = self._least = 0
        self._allocates = not settings.sync_flush
        self._by_windows: Segment | None = None  # a file for which the disk has no room at once
        self._ticked_at = 0  # where the log ended at the last tick
        self._ticked_bytes = 0  # and how far it had come since the one before
        self._room_bytes = 0  # behind the log's end, before the disk is as full as it may get
        self._deaths = 0
        self._inline = not settings.helper_process
        self._waiting: list[Callable[[], None]] = []
        self.window_bytes = settings.window_bytes  # less where the disk is nearly full
        self.full: OSError | None = None
        self._told = False
        self.lacks = 0  # times that a message has found no space, and the disk had some
        self.ask_at = 0  # the position from which on more space should be ordered
        self.on_progress: Callable[[], None] = lambda: None

    def fileno(self) -> int:
        """Return the pipe on which the helper reports; it stays the same for life."""
        return self._read_fd

    @property
    def helper_pid(self) -> int | None:
        """The helper's process id while it runs."""
        return self._helper.pid if self._helper else None

    def prepare_now(self, position: int, count: int) -> None:
        """Prepare `count` bytes from `position` in this process; OSError where the disk refuses."""
        segment = self._segments.find(position)
        if segment is None:
            segment = self._segments.add(sync_name=True)
        segment.ready = max(segment.ready, position)
        segment.prepare(position + count, zeros=True)  # by writes: blocks of a copy are shared
        self.ask_at = position + min(count, segment.end - position) // 4
        self._ticked_at = position

    def want(self, position: int, least: int = 0, *, again: bool = False) -> None:
        """See to it that the window behind `position`, at least `least` bytes, gets prepared.

        What the disk has refused is ordered again only if told so.
        """
        if self._ordered is not None or (self.full is not None and not again):
            return
        self._asked_at, self._least = position, least
        try:
            segment = self._next_to_prepare(position, max(self._lead_bytes(), least))
        except OSError as error:
            self._refused(error)
            return
        until = min(segment.end, position + self._reach(segment, position, least))
        if segment.ready < until:
            if self._inline or not self._order(segment, until):
                self._prepare_inline(segment, position, until, least)
        else:
            self._set_ask_at(position)

    def _next_to_prepare(self, position: int, ahead: int) -> Segment:
        """Return the file at a position, or the next where one is ready and ends within `ahead`."""
        segment = self._segments.find(position)
        if segment is not None and segment.ready == segment.end and position + ahead > segment.end:
            segment = self._segments.after(segment)
        return segment or self._segments.add()

    def _lead_bytes(self) -> int:
        """Return how far before the end of a file the next one is begun."""
        lead = self._settings.segment_bytes // LEAD
        if self._grows and lead <= self._room_bytes:
            return max(self.window_bytes, lead)
        return self.window_bytes

    def _reach(self, segment: Segment, position: int, least: int) -> int:
        """Return how far behind a position there is to be space, be it beyond the file's end."""
        reach = max(self.window_bytes, least)
        if self._grows and segment is not self._by_windows and self._is_quick(position):
            room = self._room_bytes - (position - self._ticked_at)
            reach = max(reach, min(GROWTH * (segment.ready - position), room))
        return reach

    def _is_quick(self, position: int) -> bool:
        """Whether a whole step was used up since the last tick, or before it."""
        used = max(position - self._ticked_at, self._ticked_bytes)
        return used >= space_helper.REPORT_STEP_BYTES

    @property
    def _grows(self) -> bool:
        """Whether more than a window is worth having: zeros of a file are in its syncs' way."""
        return self._allocates or self._settings.sync_flush

    @property
    def _step_bytes(self) -> int:
        return min(space_helper.REPORT_STEP_BYTES, max(1, self.window_bytes // 4))

    def is_preparing(self, segment: Segment) -> bool:
        """Whether the helper may be writing zeros behind `ready` of a file."""
        return self._ordered is segment

    def drop_cache(self, segment: Segment, at: int, until: int) -> bool:
        """Have the helper take a stretch of a file out of memory, little by little.

        False where it is still at the last one, or there is no helper; then nothing happens.
        """
        if self._helper is None or self._dropping:
            return False
        self._dropping = self._send(b"drop", segment, at, until)
        return self._dropping

    def lacked(self) -> OSError | None:
        """Hear that a message has found no space; return the system's reason where that is it."""
        self.lacks += self.full is None
        return self.full

    def limit_window(self, room_bytes: int) -> None:
        """Prepare no further ahead than `room_bytes`, but for the small step that a write needs."""
        most, self._room_bytes = self._settings.window_bytes, room_bytes
        self.window_bytes = min(most, max(room_bytes, WINDOW_BYTES_MIN))

    def when_progress(self, callback: Callable[[], None]) -> None:
        """Call back once, when more space is ready or has been refused.

        That may be within `want`, which an append calls: whoever hears of it must not append then.
        """
        self._waiting.append(callback)

    def tick(self, position: int) -> None:
        """Keep a helper at hand, notice one that died, try again what the disk refused."""
        self._ticked_at, self._ticked_bytes = position, position - self._ticked_at
        if self._helper is not None and self._helper.poll() is not None:
            self._buried()
        elif self._helper is not None and (self._ordered is not None or self._dropping):
            self._helper.send_signal(signal.SIGCONT)  # nothing to one that works; it was stopped
        if self._helper is None and not self._inline:
            try:  # ready before a burst needs it: starting takes longer than the first window lasts
                self._helper = self._start()
            except OSError as error:
                log.warning("log_helper_failed error=%s", error)
                self._buried()
            self._progressed()
        if self.full is not None or position >= self.ask_at:
            self.want(position, again=True)

    def on_readable(self) -> None:
        """Take the helper's reports."""
        if self._take_reports():
            self._progressed()

    def finish(self, position: int) -> None:
        """End with the log, at `position`: files behind it that nobody has used are removed.

        Where that fails the next start looks through them, which a stop saves it, and removes them.
        """
        self.close()
        with suppress(OSError):
            self._segments.drop_unused(position)

    def close(self) -> None:
        """End the helper and close the pipe."""
        if self._helper is not None:
            assert self._helper.stdin is not None
            self._helper.stdin.close()
            self._helper.kill()  # its work can be interrupted anywhere
            self._helper.wait()
            self._helper = None
        if self._read_fd >= 0:
            os.close(self._read_fd)
            os.close(self._write_fd)
            self._read_fd = self._write_fd = -1
        self._ordered = None

    def _take_reports(self) -> bool:
        """Read what the pipe holds; False if that is nothing."""
        try:
            data = os.read(self._read_fd, 65536)
        except BlockingIOError:
            return False
        *lines, self._tail = (self._tail + data).split(b"\n")
        for line in lines:
            word, number, _ = line.split(b" ", 2)
            if word == b"dropped":
                self._dropping = False
            elif word == b"ok":
                self._reported(int(number))
            else:
                self._not_done(int(number), cannot=word == b"cannot")
        return True

    def _not_done(self, number: int, *, cannot: bool) -> None:
        """Do without what the helper could not do: by windows, with zeros, or not for now."""
        segment, self._ordered = self._ordered, None
        if segment is None:
            return  # the last words of a helper that is gone
        if cannot:
            log.info("log_space_zeroed path=%s reason=%s", segment.path, os.strerror(number))
            self._allocates = False
        elif self._ordered_until > self._asked_at + max(self.window_bytes, self._least):
            self._by_windows = segment
        else:
            self._refused(OSError(number, os.strerror(number), str(segment.path)))
            return
        if self._helper is not None:  # the successor of one that is gone is given one order, later
            self.want(self._asked_at, self._least, again=True)

    def _reported(self, number: int) -> None:
        segment = self._ordered
        if segment is None:
            return  # the last words of a helper that is gone
        self.full = None
        segment.ready = max(segment.ready, segment.base + number)
        if segment.ready >= self._ordered_until:
            self._ordered, self._told = None, False
            grows = self._grows and segment is not self._by_windows
            if segment.ready == segment.end:
                self._set_ask_at(segment.end - self._lead_bytes())
            else:
                self._set_ask_at(self._asked_at if grows else segment.ready - self.window_bytes)

    def _set_ask_at(self, position: int) -> None:
        """Order again when a step's worth of the window has been used up."""
        self.ask_at = position + self._step_bytes

    def _refused(self, error: OSError) -> None:
        if not self._told:  # once until a whole order was carried out: each try may get some steps
            self._told = True
            log.warning("log_space_refused error=%s", error)
        self.full = error
        self._progressed()

    def _progressed(self) -> None:
        self.on_progress()
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    def _order(self, segment: Segment, until: int) -> bool:
        """Have space prepared from `ready` on; False where there is no helper to be had."""
        how = b"allocate" if self._allocates else b"zero"
        if self._settings.sync_flush:
            how = b"sync"
            if segment.ready - self._asked_at >= max(self.window_bytes * 3 // 4, self._least):
                how, until = b"trickle", min(until, segment.ready + TRICKLE_BYTES)
        if not self._send(how, segment, segment.ready - segment.base, until - segment.base):
            return False
        self._ordered, self._ordered_until = segment, until
        return True

    def _send(self, what: bytes, segment: Segment, at: int, until: int) -> bool:
        """Send one order to the helper; False where there is none to be had."""
        try:
            if self._helper is None:
                self._helper = self._start()
            assert self._helper.stdin is not None
            line = b"%s %d %d %s\n" % (what, at, until, os.fsencode(segment.path))
            os.write(self._helper.stdin.fileno(), line)
        except OSError as error:
            log.warning("log_helper_failed error=%s", error)
            self._buried()
            return False
        return True

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the helper; its own session keeps a terminal's Ctrl-C from ending it first."""
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(space_helper.__file__)), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=self._write_fd,
            bufsize=0,
            start_new_session=True,
        )

    def _buried(self) -> None:
        """Forget a helper that died; after a few deaths the work is done in place.

        Its last words are heard first. Taken for its successor's, they would open a range to
        writers that the successor has yet to prepare.
        """
        if self._helper is not None:
            self._helper.kill()  # its input may be closed while it still runs
            log.warning("log_helper_ended code=%s", self._helper.wait())
            if self._helper.stdin is not None:
                self._helper.stdin.close()
            self._helper = None
            while self._take_reports():
                pass
        self._tail = b""
        self._ordered, self._dropping = None, False
        self._deaths += 1
        self._inline = self._inline or self._deaths >= HELPER_DEATHS_MAX

    def _prepare_inline(self, segment: Segment, position: int, until: int, least: int) -> None:
        """Prepare a small step here, for tests, tools and where no process can be started."""
        step = max(INLINE_STEP_BYTES, least)
        until = min(until, max(segment.ready, position) + step)
        try:
            if segment.ready == segment.base:
                self._segments.sync_names()
            segment.prepare(until, zeros=not self._allocates)
        except OSError as error:
            self._refused(error)
            return
        self.full, self._told = None, False
        self.ask_at = segment.ready - min(step, self.window_bytes) // 2
        self._progressed()
