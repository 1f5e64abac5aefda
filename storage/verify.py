"""Checks every invariant between the log and its queues: `python -m aerobee.storage.verify STORE`.

Nothing is written, so a store at rest, of Java's broker too, stays as it is. Checked are: file
names and sizes; every record's magic, position, lengths and checksum; that only zeros follow the
last record of its file; that every record has its queue entry, and every entry its record, of that
topic, queue, offset, size and tags; that offsets and positions rise without gaps; the same of light
queues, whose messages name them; that what features keep beside them (index, copies, timers) agrees
with itself. Records of topics that have been deleted, and perhaps made again, are counted, but are
no problem.

Exit codes: 0 clean, 1 problems were found, 2 the store cannot be read.
"""

import argparse
import sys
from collections.abc import Callable
from typing import Final

from aerobee.remoting.extras import exit_without

if __name__ == "__main__":
    exit_without("broker", "python -m aerobee.storage.verify")

import numpy as np

from aerobee.remoting.errors import system_error
from aerobee.remoting.message.layout import BLANK_SIZE, RECORD_BYTES_MIN
from aerobee.remoting.message.tags import java_string_hash
from aerobee.remoting.words import SCHEDULE_TOPIC
from aerobee.storage.disk.files import Files
from aerobee.storage.errors import StoreError
from aerobee.storage.features.compaction.at_rest import problems_of_copies
from aerobee.storage.features.index.checking import index_problems
from aerobee.storage.features.timers.checking import timer_problems
from aerobee.storage.layout import ABORT, log_files
from aerobee.storage.log.damage import read_damage
from aerobee.storage.log.scan import Scanned, tags_code
from aerobee.storage.log.snapshot import LogSnapshot
from aerobee.storage.parts import StoreParts
from aerobee.storage.proofs.checkpoint import read_checkpoint
from aerobee.storage.proofs.progress import Progress as Proven
from aerobee.storage.proofs.progress import read_progress
from aerobee.storage.queues.bulk_check import (
    Columns,
    Entries,
    columns,
    first_of_each,
    read_entries,
    sound_until,
)
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.recovery.batch_units.checking import problems_of_units
from aerobee.storage.recovery.batch_units.taking import take_units
from aerobee.storage.recovery.known_damage import take_known_damage
from aerobee.storage.recovery.next_record import NextRecord
from aerobee.storage.recovery.quarantine import describe
from aerobee.storage.recovery.walk import LogWalk
from aerobee.storage.settings import DELAY_LEVELS_MS, StoreSettings
from aerobee.storage.tools.guessing import add_store_arguments, store_settings
from aerobee.storage.tools.light_queues import LightCheck
from aerobee.storage.tools.log_bar import log_bar
from aerobee.storage.tools.topic_lives import TopicLives
from aerobee.storage.tools.verify_report import PROBLEMS_SHOWN, Report, lines

SLOW_RECORDS: Final = 2000  # walked one by one where the columns do not fit, before they are tried
BLOCK_ENTRIES: Final = 65_536

_TAGS: Final = b"TAGS\x01"  # name and separator, as they stand in a record

Progress = Callable[[int], None]
_Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
_Bools = np.ndarray[tuple[int], np.dtype[np.bool_]]


class Verifier:
    """One look at one store at rest."""

    def __init__(
        self,
        settings: StoreSettings,
        progress: Progress = lambda done: None,
        *,
        sure: bool = False,
    ) -> None:
        files = Files()
        self._sure = sure  # that log files have the size that the settings say
        self._settings = settings
        self._progress = progress
        self._parts = parts = StoreParts.of(files, settings, write=False)
        self._segments, self._queues, self._damage = parts.segments, parts.queues, parts.damage
        self._lives = TopicLives(self._segments, self._queues)
        self._files = files
        self._search = NextRecord(self._segments, self._queues)
        self._floor = 0
        self._tags: dict[bytes, int] = {}
        self._vouched = 0  # records that have their entry
        self._unwritten_from = 1 << 62  # where the queues' files need not have all entries
        self._named = 0  # entries that lead into the log
        self.report = Report()

    def run(self) -> Report:
        """Check everything; StoreError where files have sizes that make no sense together."""
        try:
            return self._run()
        finally:
            self._parts.close()

    def _run(self) -> Report:
        report, root = self.report, self._settings.root
        found, aborted = read_progress(self._files, root), (root / ABORT).exists()
        end = found.position if found is not None else 0
        self._segments.load(end, sure=self._sure, aborted=aborted)
        if aborted:
            self._unwritten_from = max(end, read_checkpoint(self._files, root).queue_position)
        self._queues.load({})
        take_units(self._parts)
        for queue in self._queues:
            queue.trim(self._segments.begin)
        report.log_files = len(self._segments.items)
        self._take_known(found)
        for queue in self._queues.damaged:
            self.report.add(f"{queue.directory}: files are missing, or have another size")
        report.begin = report.end = self._segments.begin
        report.queues = len(self._queues)
        self._check_log()
        describe(self._damage, self._queues, ())
        for span in self._damage:
            lost = "".join(f"; {t}-{q} offset {a} to {b} lost" for t, q, a, b in span.queues)
            self.report.add(
                f"{self._name(span.begin)}: bytes {span.begin} to {span.end} are no records:"
                f" {span.reason}{lost}"
            )
        for stop in sorted(self._damage.lost_blanks):
            self.report.add(f"{self._name(stop)}: the blank that closes it, at {stop}, is missing")
        self._check_end()
        for queue in self._queues:
            self._check_queue(queue)
        for problem in problems_of_units(self._parts):
            report.add(problem)
        if not report.problem_count and self._named != self._vouched:
            report.entries = report.lost_entries = 0  # some entry names what is no record
            for queue in self._queues:
                self._check_queue(queue, heads=True)
        for problem in LightCheck(self._parts, report.end, self._unwritten_from).problems():
            report.add(problem)
        return report

    def _take_known(self, found: Proven | None) -> None:
        """See which files are lost, and what an earlier start of a broker has found."""
        root = self._settings.root
        for segment in self._segments.lost:
            lost = "is missing" if segment.stored == 0 else f"has {segment.stored} bytes only"
            self.report.add(f"{segment.path} {lost}")
        for segment in self._segments.long:
            self.report.add(f"{segment.path} has more than {segment.size} bytes")
        self._floor = take_known_damage(
            self._search, self._damage, read_damage(self._files, root), found
        )

    def _name(self, position: int) -> str:
        segment = self._segments.find(position)
        return str(segment.path) if segment is not None else "the log"

    def _check_log(self) -> None:
        """Walk the log, in bulk where its queues allow it."""
        position, queues = self._segments.begin, list(self._queues)
        while True:
            position, records = sound_until(self._segments, queues, position, self._stretch)
            self.report.records += records
            self._vouched += records
            scan = LogWalk(self._search, position, self._damage, self._floor)
            walked = 0
            for record in scan:
                self._check_record(record)
                walked += 1
                if walked == SLOW_RECORDS:
                    break
            self.report.records += walked
            position = scan.end
            self._progress(position - self._segments.begin)
            if walked < SLOW_RECORDS:
                self.report.end, self.report.end_reason = position, scan.reason
                return

    def _stretch(self, data: bytes, base: int, entries: Entries, found: Columns) -> None:
        """Check the tags of records that are known to be sound."""
        queues = list(self._queues)
        begins, ends = found.properties_at.tolist(), found.end.tolist()
        codes, owners = entries.tags.tolist(), entries.queue.tolist()
        delayed = {i for i, queue in enumerate(queues) if queue.topic == SCHEDULE_TOPIC}
        for index, code in enumerate(codes):
            if owners[index] in delayed:
                continue  # the time at which it is due depends on the broker's settings
            if code != self._hash(data, begins[index], ends[index]):
                queue = queues[owners[index]]
                self.report.add(
                    f"{queue.topic}-{queue.queue_id} offset {entries.offset[index]}: tags code"
                    f" {code}, the record at {entries.position[index]} has other tags"
                )
        self._progress(base + len(data) - self._segments.begin)

    def _hash(self, data: bytes, begin: int, end: int) -> int:
        """Return the hash of TAGS in a raw property string, by a memo of tags."""
        before = data.rfind(b"\x02" + _TAGS, begin, end)
        if before >= 0:
            at = before + 1 + len(_TAGS)
        elif data.startswith(_TAGS, begin, end):
            at = begin + len(_TAGS)
        else:
            return 0
        stop = data.find(b"\x02", at, end)
        tags = data[at : end if stop < 0 else stop]
        code = self._tags.get(tags)
        if code is None:
            code = java_string_hash(tags.decode("utf-8", "replace")) if tags else 0
            self._tags[tags] = code
        return code

    def _check_record(self, record: Scanned) -> None:
        """Compare one record with its queue entry."""
        if not record.queued or self._damage.at(record.position) is not None:
            return
        name = f"{record.topic}-{record.queue_id} offset {record.queue_offset}"
        queue = self._queues.find(record.topic, record.queue_id)
        if self._lives.is_over(record.topic, record.queue_id, record.queue_offset, record.position):
            self.report.deleted_records += 1
            return
        if queue is None or record.queue_offset >= queue.max_offset:
            if record.position >= self._unwritten_from:
                self.report.unwritten += 1
                return
            self.report.add(f"{name}: the record at {record.position} has no queue entry")
            return
        if record.queue_offset < queue.min_offset:
            return
        if (last := record.queue_offset + record.messages - 1) >= queue.max_offset:
            if record.position < self._unwritten_from:
                self.report.add(f"{name}: of its {record.messages} messages some have no entry")
            return
        position, size, code = queue.entry(record.queue_offset)
        if queue.entry(last)[:2] != (position, size):
            self.report.add(f"{name}: of its {record.messages} messages some have another entry")
            return
        if (position, size) != (record.position, record.size):
            self.report.add(
                f"{name}: the entry says {size} bytes at {position}, the record has {record.size}"
                f" bytes at {record.position}"
            )
            return
        self._vouched += 1
        if record.topic != SCHEDULE_TOPIC and code != tags_code(
            record, record.topic, DELAY_LEVELS_MS
        ):
            self.report.add(f"{name}: tags code {code}, the record at {position} has other tags")

    def _check_end(self) -> None:
        """See that the log ends because it ends, not because something is broken."""
        end = self.report.end
        segment = self._segments.find(end)
        if segment is None:
            return
        if self.report.end_reason not in ("zeros", "the files end", "the file ends"):
            self.report.add(f"{segment.path}: at {end}: {self.report.end_reason}")
            return
        for later in self._segments.items:
            at = later.next_data(max(end, later.base))
            while at < later.end:
                data = later.read(at, 4 << 20)
                if not data:
                    break
                if data.count(0) != len(data):
                    self.report.add(
                        f"{later.path}: bytes behind the last record, which ends at {end}"
                    )
                    return
                at = later.next_data(at + len(data)) if at + len(data) < later.end else later.end

    def _check_queue(self, queue: ConsumeQueue, *, heads: bool = False) -> None:
        """See that every entry has its record; what lies before the log's begin does not count.

        The log has vouched for all entries if they are as many as its records; else, and after any
        problem, the record under each is looked at.
        """
        for low in range(queue.min_offset, queue.max_offset, BLOCK_ENTRIES):
            high = min(low + BLOCK_ENTRIES, queue.max_offset)
            rows = read_entries(queue, low, high)
            self.report.entries += len(rows)
            position = rows["position"].astype(np.int64)
            size = rows["size"].astype(np.int64)
            lost = self._lost(position, size)
            self.report.lost_entries += int(lost.sum())
            inside = lost | (position >= self.report.begin) & (position + size <= self.report.end)
            for index in np.flatnonzero(~inside)[:PROBLEMS_SHOWN].tolist():
                self.report.add(
                    f"{queue.topic}-{queue.queue_id} offset {low + index}: the entry says"
                    f" {size[index]} bytes at {position[index]}, the log has"
                    f" {self.report.begin} to {self.report.end}"
                )
            known = np.flatnonzero(size != BLANK_SIZE)
            falls = np.flatnonzero(position[known][1:] + queue.batched <= position[known][:-1])
            for fall in falls[:PROBLEMS_SHOWN].tolist():
                before, index = int(known[fall]), int(known[fall + 1])
                self.report.add(
                    f"{queue.topic}-{queue.queue_id} offset {low + index}: position"
                    f" {position[index]} is not behind the one before, {position[before]}"
                )
            if queue.batched:
                before = queue.place_of(low - 1)[0] if low > queue.min_offset else -1
                inside &= first_of_each(rows, before)
            self._named += int((inside & ~lost & (position >= self.report.begin)).sum())
            if self.report.problem_count or heads:
                self._check_heads(queue, low, position, size, inside & ~lost)

    def _lost(self, position: "_Ints", size: "_Ints") -> "_Bools":
        """Tell the entries that are blank, or point into a damaged span."""
        lost = np.asarray(size == BLANK_SIZE)
        for span in self._damage:
            lost |= (position < span.end) & (position + size > span.begin)
        return lost

    def _check_heads(
        self,
        queue: ConsumeQueue,
        low: int,
        position: "_Ints",
        size: "_Ints",
        inside: "_Bools",
    ) -> None:
        """Look at the record under each entry on its own."""
        for index in np.flatnonzero(inside).tolist():
            at, count = int(position[index]), int(size[index])
            segment = self._segments.find(at)
            data = segment.read(at, count) if segment is not None else b""
            one = np.zeros(1, np.int64)
            entry = Entries(one + at, one + count, one, one + low + index, one)
            if (
                len(data) < max(RECORD_BYTES_MIN, count)
                or not columns(data, at, entry, [queue]).sound[0]
            ):
                self.report.add(
                    f"{queue.topic}-{queue.queue_id} offset {low + index}: no record of that"
                    f" queue and offset with {count} bytes at {at}"
                )


def verify(
    settings: StoreSettings, progress: Progress = lambda done: None, *, sure: bool = False
) -> Report:
    """Check a store at rest and report. `sure`: that log files have the size of the settings."""
    report = Verifier(settings, progress, sure=sure).run()
    for problem in (
        *index_problems(Files(), settings.root, report.end),
        *problems_of_copies(Files(), settings, _snapshot(settings, report)),
        *timer_problems(Files(), settings.root, report.end),
    ):
        report.add(problem)
    return report


def _snapshot(settings: StoreSettings, report: Report) -> LogSnapshot:
    return LogSnapshot(settings.log_dir, report.begin, report.end, settings.segment_bytes)


def main(arguments: list[str] | None = None) -> int:
    """Run from a command line."""
    parser = argparse.ArgumentParser(
        prog="python -m aerobee.storage.verify",
        description="Check a store at rest: every record, every queue entry, and that they agree.",
        epilog="Exit codes: 0 clean, 1 problems found, 2 the store cannot be read.",
    )
    add_store_arguments(parser)
    options = parser.parse_args(arguments)
    try:
        if not log_files(options.store, options.commit_log) and not options.store.is_dir():
            print(f"{options.store} is no store: there is no such directory", file=sys.stderr)
            return 2
        settings = store_settings(
            options.store, options.commit_log, options.log_file_bytes, options.queue_file_bytes
        )
        with log_bar(settings, "checking the log") as show:
            report = verify(settings, show, sure=options.log_file_bytes is not None)
    except (StoreError, OSError) as error:
        text = system_error(error) if isinstance(error, OSError) else error
        print(text, file=sys.stderr)
        return 2
    for line in lines(report):
        print(line)
    return 1 if report.problem_count else 0


if __name__ == "__main__":
    sys.exit(main())
