"""What the benchmark of a group that is a GiB behind holds the default to."""

import pytest

from benchmarks.generator import Measurement
from benchmarks.late_readers import READERS, Turn, missed

DEFAULT_MIB = 1536


def turn(cpu_us: float = 4, disk_mib: float = 9, read: float = 100, pull_p99_ms: float = 5) -> Turn:
    """Return what a turn found."""
    sent = Measurement(1000, 1.0, 1000, cpu_us, 1.0, 1.0, 1.0, 1.0, 1.0, None)
    return Turn(sent, disk_mib, read, pull_p99_ms)


def rounds(member: list[Turn], all_kept: Turn) -> dict[tuple[int, str], list[Turn]]:
    """Return three rounds in which a group with a member met something."""
    found = {(cache, reader): [turn()] * 3 for cache in (DEFAULT_MIB, 256, 0) for reader in READERS}
    return found | {(DEFAULT_MIB, "member"): member, (0, "member"): [all_kept] * 3}


def test_a_reader_that_notices_nothing() -> None:
    """One bad round of three is the machine's; what other values do is shown, not judged."""
    found = rounds([turn(), turn(disk_mib=900, read=1, pull_p99_ms=99, cpu_us=40), turn()], turn())
    found[256, "stranger"] = [turn(disk_mib=250)] * 3
    assert missed(found, DEFAULT_MIB) == []


@pytest.mark.parametrize(
    ("suffers", "said"),
    [
        (turn(disk_mib=33), "member: 33 MiB from the disk, at most 32"),
        (turn(read=79), "member: 0.79x what it gets where all is kept"),
        (turn(pull_p99_ms=11), "member: pulls take 2.2x as long as where all is kept"),
        (turn(cpu_us=5.2), "member: a message sent meanwhile takes 1.30x the CPU"),
    ],
)
def test_a_reader_that_suffers(suffers: Turn, said: str) -> None:
    """By what it is given, how long it waits, what the disk has to do, or what others pay."""
    assert missed(rounds([suffers] * 3, turn()), DEFAULT_MIB) == [said]


def test_two_rounds_say_nothing_of_ratios() -> None:
    """What came from the disk is counted, not timed: that holds of each."""
    slow = {key: turns[:2] for key, turns in rounds([turn(read=1)] * 3, turn()).items()}
    assert missed(slow, DEFAULT_MIB) == []
    slow[DEFAULT_MIB, "member"] = [turn(disk_mib=100)]
    assert len(missed(slow, DEFAULT_MIB)) == 1


def test_a_default_that_was_not_measured_is_not_met() -> None:
    """Other values say nothing of it."""
    assert len(missed(rounds([turn()] * 3, turn()), 1024)) == len(READERS)
