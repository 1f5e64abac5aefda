"""Log files that are rotated, written by a thread: a disk that does not answer stops no server."""

import logging
import queue
from contextlib import suppress
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from pathlib import Path
from typing import Final

STOP_S: Final = 5.0
WAITING_MAX: Final = 10_000  # lines that are not written yet; more are counted, and lost


class LogFile(QueueHandler):
    """Gives lines to a thread that writes them into a file, and into new ones as that is full.

    The file is `path`, older ones are `path.1` and so on. What cannot be written is lost, and told
    of by a line once others can be; nobody waits for it.
    """

    def __init__(self, path: Path, bytes_max: int, files_max: int) -> None:
        self._lines: queue.Queue[logging.LogRecord] = queue.Queue(WAITING_MAX)
        super().__init__(self._lines)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = _Rotated(path, maxBytes=bytes_max, backupCount=files_max - 1, encoding="utf-8")
        self._writer = _Writer(self._lines, self._file)
        self._writer.start()

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return what the thread writes: the finished line."""
        return logging.makeLogRecord({"msg": self.format(record)})

    def enqueue(self, record: logging.LogRecord) -> None:
        """Hand over a line, unless too many wait already."""
        try:
            self._lines.put_nowait(record)
        except queue.Full:
            self._file.lost += 1

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

    lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        lost = self.lost
        super().emit(record)
        if lost and self.lost == lost:
            self.lost = 0
            super().emit(logging.makeLogRecord({"msg": f"log_lines_lost count={lost}"}))

    def handleError(self, record: logging.LogRecord) -> None:
        """Count a line that could not be written: a full disk, say."""
        self.lost += 1
