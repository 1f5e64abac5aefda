"""Types of the compiled module; see record_runs.pyx."""

import mmap
from typing import Any, Protocol

from aerobee.broker.health.metrics import Metrics
from aerobee.broker.members.registry import Members
from aerobee.broker.tables.groups import GroupTable
from aerobee.broker.tables.topics import TopicTable
from aerobee.remoting.net.connection import Connection
from aerobee.storage.disk.residency import Copied, Resident
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.reads.reading import Gather

copied: Copied
gather: Gather
resident: Resident

def guard_copies() -> None:
    """Survive copies of memory that the disk does not give, whatever else handles SIGBUS by now."""

class World(Protocol):
    """What pulls that come again need of the broker; `known` is what they were learned with.

    `limits` are messages and bytes of a reply with old records, then of one with recent ones.
    """

    limits: tuple[int, int, int, int]
    tables: tuple[TopicTable, GroupTable, Members]
    """Where what a check has found holds as long as their versions are the same objects."""
    steady: bool
    """Whether it holds for all connections, too."""
    signs: bool
    """Whether pulls have signatures that do not matter; `is_settled` knows who may then."""
    last_pulled: dict[str, dict[int, int]]
    metrics: Metrics
    """Where it is noted how far pulls have got, and what they were given."""
    writable: bool
    """Whether what is not synced is surely in memory; as of the last `begin`."""

    fresh: bool
    """Whether the run's connection has just come: `is_settled` is asked of each of its queues."""

    def begin(self, connection: Connection) -> int:
        """Commit the log; return from which position on all is in memory, or -1.

        That is where each pull of the connection has to be looked at.
        """

    def is_settled(self, connection: Connection, known: Any) -> bool:
        """Say whether a pull need not be looked at."""

    def open(
        self, connection: Connection, known: Any, offset: int
    ) -> tuple[mmap.mmap | bytearray, int, int, int, int, int, ConsumeQueue] | None:
        """Have a pull checked; return memory of its queue's entries, and offsets; None: refused.

        They are that of the first entry there, and up to where there are entries, the least and the
        greatest of the queue, and up to where the entries have been synced. The last is the queue.
        """

    def file_at(self, position: int) -> tuple[memoryview, int, int] | None:
        """Return a file of the log, its base, and how far it may be read."""

    def in_memory(self, position: int) -> bool:
        """Whether a record counts as recent."""

    def commit(self, known: Any, offset: int) -> None:
        """Take the offset that came with a pull."""

    def served(
        self, known: Any, next_offset: int, pulls: int, messages: int, size_bytes: int
    ) -> None:
        """So many pulls have found so much, the last of them up to an offset."""

class RepeatedPulls:
    """Answers repeated pulls at the start of what was read."""

    def __init__(self, world: World) -> None: ...
    def __len__(self) -> int: ...
    def serve(
        self,
        connection: Connection,
        data: bytes,
        at: int,
        frames_max: int,
        bytes_max: int,
        replies: list[bytes | memoryview],
    ) -> tuple[int, int, int] | None:
        """Answer pulls from `at` on, until their replies have more than `bytes_max` bytes.

        Returns where the first is that is not answered, how many were, and the bytes of the reply;
        None where there was none.
        """

    def missed(self, offset: int, committed: int, opaque: int) -> bytes | None:
        """Return the header that was not known, if it is this pull's, to be learned; else None."""

    def learn(
        self,
        known: object,
        names: tuple[str, tuple[str, str], int],
        pieces: tuple[bytes, ...],
        wanted: frozenset[int] | None,
        messages_max: int,
        bytes_max: int,
        look_max: int,
        commits: bool,
    ) -> None:
        """Know the pull that was missed last from now on.

        `names` are the keys of `last_pulled`, of `metrics.outgoing`, and the number of the queue.
        """
