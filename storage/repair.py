"""Mends a store at rest: `python -m aerobee.storage.repair STORE`, and `--write` to do it.

Without `--write` nothing is changed: it says what it would do. With it, and with the broker
stopped, what cannot be read of the log is copied to `damaged/`, filled with something that
RocketMQ 5.5 and Aerobee step over, and every queue is brought into line with the log, record by
record. Messages that can be read stay where they are, byte for byte, and keep their offsets.

Exit codes: 0 clean, or mended; 1 there is something to mend, or was not mended; 2 the store cannot
be read, or is in use.
"""

import argparse
import sys
from collections.abc import Iterator

from aerobee.remoting.extras import exit_without

if __name__ == "__main__":
    exit_without("broker", "python -m aerobee.storage.repair")

from aerobee.remoting.errors import system_error
from aerobee.storage.disk.files import Files
from aerobee.storage.errors import StoreError
from aerobee.storage.features.compaction.mending import CopiesMender
from aerobee.storage.features.index.checking import index_problems, rebuild_index
from aerobee.storage.features.timers.mending import TimersMender
from aerobee.storage.layout import log_files
from aerobee.storage.log.damage import DamageTable
from aerobee.storage.log.snapshot import LogSnapshot
from aerobee.storage.settings import StoreSettings
from aerobee.storage.tools.guessing import add_store_arguments, store_settings
from aerobee.storage.tools.log_bar import log_bar
from aerobee.storage.tools.repairing import Repaired, Repairer
from aerobee.storage.tools.verify_report import Report, lines
from aerobee.storage.verify import verify

EXAMPLES = """examples:
  python -m aerobee.storage.repair /data/store            what would be done; nothing is changed
  python -m aerobee.storage.repair --write /data/store    do it; the broker is stopped

Exit codes: 0 clean or mended, 1 something to mend is left, 2 the store cannot be read or is in use.
Restore lost files from a copy first, if there is one: what is put back needs no mending. Read time
is that of the whole log, about a gigabyte of 1 KiB messages in ten seconds.
"""


def repair(settings: StoreSettings, *, sure: bool = False) -> Repaired:
    """Mend a store that nobody uses; see Repairer. `sure`: that log files have that size."""
    return Repairer(settings, sure=sure).run()


def told(result: Repaired) -> Iterator[str]:
    """Describe what a repair has done."""
    for span in result.spans:
        lost = ", ".join(f"{t}-{q} offset {a} to {b}" for t, q, a, b in span.queues)
        yield (
            f"bytes {span.begin} to {span.end} ({span.reason}) filled; lost: {lost or 'unknown'};"
            f" kept in {span.set_aside or 'nothing, they were zeros'}"
        )
    for span in result.unfilled:
        yield f"bytes {span.begin} to {span.end} are too few to be filled: our broker skips them"
    yield (
        f"{result.records} records, the log ends at {result.end}; queue entries:"
        f" {result.entries_written} written, {result.entries_blanked} blanked,"
        f" {result.entries_cut} cut off"
    )


def _act(settings: StoreSettings, *, sure: bool) -> int:
    with log_bar(settings, "mending the store") as show:
        result = Repairer(settings, progress=show, sure=sure).run()
    for line in told(result):
        print(line)
    log_bytes = _snapshot(settings, result)
    for line in _mend_index(settings, log_bytes):
        print(line)
    for line in TimersMender(Files(), settings, log_bytes).run():
        print(line)
    for line in CopiesMender(Files(), settings, log_bytes).run():
        print(line)
    report = _checked(settings, sure=sure)
    for line in lines(report):
        print(line)
    return 1 if report.problem_count else 0


def _snapshot(settings: StoreSettings, result: Repaired) -> LogSnapshot:
    damage = DamageTable()
    damage.replace(result.unfilled)
    spans = log_files(settings.root, settings.commit_log_dir)
    begin = spans[0].begin if spans else result.end
    frozen = damage.frozen()
    return LogSnapshot(settings.log_dir, begin, result.end, settings.segment_bytes, frozen)


def _mend_index(settings: StoreSettings, log: LogSnapshot) -> Iterator[str]:
    """Make the index of keys anew where it is not sound; one that is sound stays."""
    files, root = Files(), settings.root
    if not any(index_problems(files, root, log.end)):
        return
    entries = rebuild_index(files, root, log)
    yield f"the index of keys was made anew: {entries} entries; the old one is in damaged/index"


def _checked(settings: StoreSettings, *, sure: bool) -> Report:
    with log_bar(settings, "checking the log") as show:
        return verify(settings, show, sure=sure)


def _look(settings: StoreSettings, *, sure: bool) -> int:
    report = _checked(settings, sure=sure)
    for line in lines(report):
        print(line)
    if not report.problem_count:
        print("nothing to mend")
        return 0
    print(
        "with --write: bytes that are no records are copied to damaged/ and filled, missing and"
        " short files get their size, entries of queues are written, blanked or cut off as the log"
        " says; nothing has been changed"
    )
    return 1


def main(arguments: list[str] | None = None) -> int:
    """Run from a command line."""
    parser = argparse.ArgumentParser(
        prog="python -m aerobee.storage.repair",
        description="Mend a store at rest: set aside what cannot be read, bring queues into line.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_store_arguments(parser)
    parser.add_argument("--write", action="store_true", help="do it, instead of saying what")
    options = parser.parse_args(arguments)
    try:
        if not log_files(options.store, options.commit_log) and not options.store.is_dir():
            print(f"{options.store} is no store: there is no such directory", file=sys.stderr)
            return 2
        settings = store_settings(
            options.store, options.commit_log, options.log_file_bytes, options.queue_file_bytes
        )
        run = _act if options.write else _look
        return run(settings, sure=options.log_file_bytes is not None)
    except (StoreError, OSError) as error:
        text = system_error(error) if isinstance(error, OSError) else error
        print(text, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
