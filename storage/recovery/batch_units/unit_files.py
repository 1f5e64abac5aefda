"""The files of one batch queue's units: where they are, where they end, and what is added."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from aerobee.storage.disk.files import Files
from aerobee.storage.layout import BATCH_UNITS, FileSpan, file_name, file_spans
from aerobee.storage.queues.files import open_made
from aerobee.storage.recovery.batch_units.units import (
    UNIT_BYTES,
    UNIT_FILE_BYTES,
    BatchUnit,
    pack_units,
    unit_at,
    units_of,
)


class UnitFiles:
    """Units in the order of the log, in files of one size; whoever writes is the only one.

    The size is that of the files which are there, whatever RocketMQ's
    `mapperFileSizeBatchConsumeQueue` was, and else its default.
    """

    def __init__(self, files: Files, root: Path, topic: str, queue_id: int) -> None:
        self._files = files
        self.topic = topic
        self.queue_id = queue_id
        self.directory = root / BATCH_UNITS / topic / str(queue_id)
        self._clean = False  # whether what lies behind the last unit is known to be zeros

    def spans(self) -> list[FileSpan]:
        """List the files, oldest first; none where their sizes make no sense together."""
        spans = file_spans(self.directory)
        size = self._file_bytes(spans)
        sound = all(
            span.size == size or (span is spans[-1] and span.size < size) for span in spans
        ) and all(after.begin == before.begin + size for before, after in pairwise(spans))
        return spans if sound else []

    def _file_bytes(self, spans: Sequence[FileSpan]) -> int:
        size = spans[0].size if spans else 0
        return size if size and not size % UNIT_BYTES else UNIT_FILE_BYTES

    def read(self, spans: Sequence[FileSpan] | None = None) -> Iterator[tuple[int, BatchUnit]]:
        """Yield the units in order, each with its number; up to the first that cannot follow."""
        before: BatchUnit | None = None
        for span in self.spans() if spans is None else spans:
            count, number = 0, span.begin // UNIT_BYTES
            for unit in units_of(self._read(span)):
                if not unit.follows(before):
                    return
                yield number + count, unit
                before, count = unit, count + 1
            if count < span.size // UNIT_BYTES:
                return

    def _read(self, span: FileSpan) -> bytes:
        fd = self._files.open(span.path, write=False)
        try:
            return self._files.read(fd, span.size, 0)
        finally:
            self._files.close(fd)

    def newest(self, files_max: int) -> list[FileSpan]:
        """List the newest files that have units, and the one behind them; not all of a long queue.

        RocketMQ looks at three, too.
        """
        spans = self.spans()
        while len(spans) > 1 and unit_at(self._read_first(spans[-1]), 0) is None:
            spans.pop()
        return spans[-files_max:]

    def _read_first(self, span: FileSpan) -> bytes:
        fd = self._files.open(span.path, write=False)
        try:
            return self._files.read(fd, UNIT_BYTES, 0)
        finally:
            self._files.close(fd)

    def write(self, number: int, units: Sequence[BatchUnit]) -> None:
        """Put units at a place, and have the disk take them; what lies behind them is zeros.

        OSError: some of them may be there; to be called again.
        """
        spans = self.spans()
        if not spans:  # or what is there is of no use
            self.remove()
        file_bytes = self._file_bytes(spans)
        per_file = file_bytes // UNIT_BYTES
        for span in reversed(spans):
            if span.begin >= max(1, number + len(units)) * UNIT_BYTES:
                self._files.remove(span.path)
        done, fresh, clean, self._clean = 0, False, self._clean, False
        while done < len(units):
            first = number + done
            base = first // per_file * per_file
            path = self.directory / file_name(base * UNIT_BYTES)
            fresh |= not path.exists()
            count = min(len(units) - done, base + per_file - first)
            fd = open_made(self._files, path, file_bytes)
            try:
                at = (first - base) * UNIT_BYTES
                data = pack_units(units[done : done + count])
                self._files.write(fd, data, at)
                if not clean:
                    self._files.clear(fd, at + len(data), file_bytes - at - len(data))
                self._files.sync(fd)
            finally:
                self._files.close(fd)
            done += count
        self._clean = True
        if fresh:
            for directory in (self.directory, *self.directory.parents[:3]):
                self._files.sync_directory(directory)

    def cut(self, number: int) -> None:
        """Forget the units from a number on, and have the disk forget them."""
        for span in reversed(self.spans()):
            if span.begin >= max(1, number) * UNIT_BYTES:
                self._files.remove(span.path)
                continue
            at = max(0, number * UNIT_BYTES - span.begin)
            fd = self._files.open(span.path)
            try:
                self._files.clear(fd, at, max(0, span.size - at))
                self._files.sync(fd)
            finally:
                self._files.close(fd)
            break
        if self.directory.is_dir():
            self._files.sync_directory(self.directory)

    def trim(self, min_offset: int) -> None:
        """Remove the oldest files whose messages are all before an offset; one file stays."""
        spans = self.spans()
        for span, following in pairwise(spans):
            first = unit_at(self._read_first(following), 0)
            if first is None or first.first_offset > min_offset:
                return
            self._files.remove(span.path)

    def remove(self) -> None:
        """Remove all of them, the newest first, and their folder."""
        for span in reversed(file_spans(self.directory)):
            self._files.remove(span.path)
        self._files.remove_directory(self.directory)
        self._files.remove_directory(self.directory.parent)
