"""What serving pulls needs of the broker."""

from collections.abc import Sized
from dataclasses import dataclass
from typing import Protocol

from aerobee.broker.cold.reads import ColdReads
from aerobee.broker.health.metrics import Metrics
from aerobee.broker.hooks import Hooks
from aerobee.broker.members.group import QueueKey
from aerobee.broker.members.registry import Members
from aerobee.broker.pulls.broadcasts import BroadcastOffsets
from aerobee.broker.pulls.held import Holds
from aerobee.broker.tables.parts import Tables
from aerobee.broker.writing.parts import Writing
from aerobee.remoting.net.connection import Connection


class Owners(Protocol):
    """Who may read and commit of a group's queues, while they go from one member to another."""

    @property
    def watched(self) -> Sized:
        """Connections whose pulls somebody must look at; the others may read."""

    @property
    def fresh(self) -> Sized:
        """Connections that have just come, and may be those of a member that was here."""

    def takes_commit(self, connection: Connection, key: QueueKey, offset: int) -> bool:
        """Whether a commit counts."""

    def begin_pull(
        self, connection: Connection, key: QueueKey, offset: int = 0, *, finished: bool = False
    ) -> bool:
        """A pull has come; False if it must wait as on an empty queue."""

    def may_pull(self, connection: Connection, key: QueueKey) -> bool:
        """Whether a pull that waited may read now."""

    def goes_on_at(self, connection: Connection, key: QueueKey, offset: int) -> int | None:
        """Where a pull has to go on that may read now; None: where it is."""


@dataclass(frozen=True, slots=True)
class PullParts:
    """Made once by the broker."""

    writing: Writing
    tables: Tables
    members: Members
    owners: Owners
    holds: Holds
    broadcasts: BroadcastOffsets
    cold_reads: ColdReads
    hooks: Hooks
    metrics: Metrics
