"""The records of one read, collected one by one."""

from typing import Final, TypeAlias

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.reads.cold.fetching import Fetched, NotFetchedError
from aerobee.storage.reads.cold.warm_log import WarmLog
from aerobee.storage.reads.results import Accept, ReadResult, ReadStatus

Log: TypeAlias = WarmLog | Fetched

_FOUND: Final = ReadStatus.FOUND


class Gathered:
    """Collects records until a limit is met; the first one always fits."""

    def __init__(self, log: Log, messages_max: int, bytes_max: int) -> None:
        self._log = log
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._run_begin = self._run_end = -1
        self.parts: list[bytes | memoryview] = []
        self.count = 0
        self.bytes = 0
        self.cold = False  # whether what comes next is not in memory
        self.missed: set[int] = set()  # positions at which the log has no such record
        self.status = ReadStatus.NO_MATCHED_MESSAGE

    def add(self, position: int, size: int, accept: Accept | None) -> bool:
        """Take one record, or pass over it; False if it has to wait for the next read."""
        if self.count and (self.count >= self._messages_max or self.bytes + size > self._bytes_max):
            return False
        try:
            view = self._log.record(position, size)
        except NotFetchedError:
            self.cold = True
            return False
        if view is None:
            if not self.count:
                self.status = ReadStatus.MESSAGE_WAS_REMOVING
            if size != BLANK_SIZE:
                self.missed.add(position)
            return True
        if accept is not None and not (accepted := accept(view)):
            return accepted is not None
        if position == self._run_end and (
            longer := self._log.joined(self._run_begin, position + size - self._run_begin)
        ):
            self.parts[-1] = longer
        else:
            self.parts.append(view)
            self._run_begin = position
        self._run_end = position + size
        self.count += 1
        self.bytes += size
        self.status = _FOUND
        return True

    def result(self, queue: ConsumeQueue, next_offset: int) -> ReadResult:
        """Put the result together."""
        return ReadResult(
            self.status, next_offset, queue.min_offset, queue.max_offset, self.parts, self.count,
            self.bytes,
        )  # fmt: skip
