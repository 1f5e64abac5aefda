"""What a seed stands for: a store, its load, and what may go wrong with it."""

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any

from simulation.disk.book import Key


class Trouble(StrEnum):
    """What may go wrong besides deaths of the process and of the power."""

    SYNC_FAILS = "a sync fails"
    UNHEARD = "a sync fails, and the process dies before it is told"
    NO_SPACE = "the disk has no space for a while"
    WRITES_FAIL = "writes fail for a while"
    READS_FAIL = "reads fail for a while"
    SLOW = "syncs take long for a while"
    FILLS = "the disk is nearly full"
    EVICTION = "memory is short, and pages are read anew"
    FLIP = "a bit flips at rest"


@dataclass(frozen=True, slots=True)
class Plan:
    """One run."""

    flush: str
    segment_bytes: int
    queue_file_entries: int
    queues: tuple[Key, ...]
    burst: int
    lives: int
    steps: tuple[int, int]
    troubles: tuple[Trouble, ...]
    trouble_rate: float
    deletes: bool
    power_losses: float
    death_anywhere: float
    death_in_recovery: float
    settles: float
    closes: float
    slots: int  # of the kernel's queue of syncs
    slice_s: float  # that a round over queues takes at a time; none: one queue
    files_one_by_one: int  # more than these are synced with all others
    journaled: bool  # a sync of a file brings names to the disk, too
    allocates: bool  # the file system has fallocate
    log_cache_bytes: int  # of the log stay in memory; 0: all

    def settings(self) -> dict[str, Any]:
        """Return the store's settings but for its root."""
        return {
            "segment_bytes": self.segment_bytes,
            "queue_file_entries": self.queue_file_entries,
            "window_bytes": 8192,
            "first_window_bytes": 8192,
            "helper_process": False,
            "log_cache_bytes": self.log_cache_bytes,
            "flush_mode": self.flush,
            "delete_hours": (),
        }

    def __str__(self) -> str:
        troubles = ", ".join(self.troubles) or "no trouble"
        return (
            f"{self.flush}, log files of {self.segment_bytes}, {len(self.queues)} queues of"
            f" {self.queue_file_entries}, {self.lives} lives, power lost {self.power_losses:.1f};"
            f" {troubles}{'' if self.journaled else ', names need a sync of their own'}"
            f"{'' if self.allocates else ', no fallocate'}"
            f"{', old pages are dropped' if self.log_cache_bytes else ''}"
        )


def draw(seed: int) -> Plan:
    """Return the plan of a seed; one of three has no trouble but deaths."""
    dice = Random(f"disk plan {seed}")
    topics = [f"t{number}" for number in range(dice.choice((1, 2, 3)))]
    queues = tuple(Key(topic, number) for topic in topics for number in range(dice.choice((1, 2))))
    others = tuple(each for each in Trouble if each is not Trouble.UNHEARD and dice.random() < 0.35)
    unheard = Random(f"disk unheard {seed}").random() < 0.35  # apart: the rest stays what it was
    troubles = (*others, Trouble.UNHEARD) if unheard else others
    rounds = Random(f"disk rounds {seed}")
    return Plan(
        flush=dice.choice(("SYNC_FLUSH", "ASYNC_FLUSH")),
        segment_bytes=dice.choice((16384, 65536)),
        queue_file_entries=dice.choice((10, 50, 500)),
        queues=queues,
        burst=dice.choice((1, 4, 12)),
        lives=dice.choice((2, 3, 5)),
        steps=dice.choice(((0, 15), (5, 40), (20, 80))),
        troubles=troubles if seed % 3 else (),
        trouble_rate=dice.choice((0.02, 0.1)),
        deletes=dice.random() < 0.4,
        power_losses=dice.choice((0.0, 0.4, 0.9)),
        death_anywhere=dice.choice((0.2, 0.8)),
        death_in_recovery=dice.choice((0.0, 0.3)),
        settles=dice.choice((0.1, 0.6)),
        closes=dice.choice((0.1, 0.5)),
        slots=dice.choice((2, 5, 256)),
        slice_s=rounds.choice((0.0, 0.002)),
        files_one_by_one=rounds.choice((0, 2, 512)),
        journaled=dice.random() < 0.6,
        allocates=Random(f"disk fallocate {seed}").random() < 0.75,
        log_cache_bytes=Random(f"disk log cache {seed}").choice((0, 8192)),
    )
