"""Log files that are rotated, written by a thread: a disk that does not answer stops no server."""

import io
import logging
import os
import queue
from collections.abc import Callable
from contextlib import suppress
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from pathlib import Path
from typing import Final

STOP_S: Final = 5.0
WAITING_MAX: Final = 10_000  # lines that are not written yet; more are counted, and lost


class LogFile(QueueHandler):
    """Gives lines to a thread that writes them into a file, and into new ones as that is full.

    The file is `path`, older ones are `path.1` and so on. What cannot be written is lost, and told
    of by a line once others can be; nobody waits for it. What is `private` is for the owner of the
    process alone.
    """

    def __init__(
        self,
        path: Path,
        bytes_max: int,
        files_max: int,
        *,
        private: bool = False,
        lost_line: Callable[[int], str] = "log_lines_lost count={}".format,
    ) -> None:
        self._lines: queue.Queue[logging.LogRecord] = queue.Queue(WAITING_MAX)
        super().__init__(self._lines)
        path.parent.mkdir(parents=True, exist_ok=True)
        made = _Private if private else _Rotated
        self._file = made(path, maxBytes=bytes_max, backupCount=files_max - 1, encoding="utf-8")
        self._file.lost_line = lost_line
        self._writer = _Writer(self._lines, self._file)
        self._writer.start()

    @property
    def lost(self) -> int:
        """How many lines were lost since the start."""
        return self._file.lost_total

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return what the thread writes: the finished line."""
        return logging.makeLogRecord({"msg": self.format(record)})

    def enqueue(self, record: logging.LogRecord) -> None:
        """Hand over a line, unless too many wait already."""
        try:
            self._lines.put_nowait(record)
        except queue.Full:
            self._file.lose()

    def close(self) -> None:
        """Write what waits, if the disk takes it in time."""
        self._writer.stop()
        super().close()


class _Writer(QueueListener):
    """A thread that a stop does not wait for without end: its disk may not answer any more."""

    def stop(self) -> None:
        """Let it write what waits, and close its file; harmless when repeated."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        with suppress(queue.Full):
            self.queue.put(self._sentinel, timeout=STOP_S)  # type: ignore[attr-defined]
            thread.join(STOP_S)
        if not thread.is_alive():
            for handler in self.handlers:
                handler.close()


class _Rotated(RotatingFileHandler):
    """Counts the lines that were lost, and says so in the next one that is not."""

    lost = lost_total = 0
    lost_line: Callable[[int], str]

    def lose(self) -> None:
        """Count a line that is not written."""
        self.lost += 1
        self.lost_total += 1

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        lost = self.lost
        super().emit(record)
        if lost and self.lost == lost:
            self.lost = 0
            super().emit(logging.makeLogRecord({"msg": self.lost_line(lost)}))

    def handleError(self, record: logging.LogRecord) -> None:
        """Count a line that could not be written: a full disk, say."""
        self.lose()


class _Private(_Rotated):
    """Files that nobody else can read, from their first byte on."""

    def _open(self) -> io.TextIOWrapper:
        opened = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with suppress(OSError):  # one that was there already; a file system without rights
            os.fchmod(opened, 0o600)
        return io.TextIOWrapper(io.FileIO(opened, "a"), self.encoding, write_through=False)
