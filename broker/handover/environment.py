"""What hand-overs need of the rest of a broker: time, offsets, locks, notices and pulls."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from aerobee.broker.handover.owned_queue import Timer
from aerobee.broker.members.group import GroupQueue
from aerobee.remoting.bodies import ConsumerRunningInfo
from aerobee.remoting.net.connection import Connection


class HandoverLimits(msgspec.Struct, frozen=True):
    """For how long others wait for an owner, and for how many.

    `wait_ms` is handoverWaitMillis, 0 where nothing is to be held; `drain_ms` handoverDrainMillis,
    0 where nobody is to finish first; both are asked each time. `queues_max` is how many queues may
    have an owner: more are handed over as RocketMQ does it.
    """

    wait_ms: Callable[[], int]
    drain_ms: Callable[[], int]
    queues_max: int


class Holdings(msgspec.Struct, frozen=True):
    """What a consumer says of itself; `queues` are messages held and last hand-out, in ms.

    `held` are the messages of all its queues, on any broker; `threads` is 0 where it does not say
    how many it has, and where messages wait for each other, too (orderly).
    """

    auto_commit: bool
    batch_max: int
    queues: dict[tuple[str, int], tuple[int, int]]
    held: int = 0
    threads: int = 0

    @classmethod
    def of(cls, info: ConsumerRunningInfo, broker_name: str) -> "Holdings":
        """Read the answer to 307, the part of it that is about one broker."""
        properties = info.properties
        orderly = properties.get("PROP_CONSUMEORDERLY") != "false"
        return cls(
            auto_commit=properties.get("autoCommit") == "true",
            batch_max=_number(properties.get("pullBatchSize", "")),
            queues={
                (place.topic, place.queue_id): (held.cached_msg_count, held.last_consume_timestamp)
                for place, held in info.mq_table.items()
                if place.broker_name == broker_name
            },
            held=sum(max(held.cached_msg_count, 0) for held in info.mq_table.values()),
            threads=0 if orderly else _number(properties.get("PROP_THREADPOOL_CORE_SIZE", "")),
        )


def _number(word: str) -> int:
    return int(word) if word.isdecimal() and len(word) < 10 else 0


class Environment(Protocol):
    """What happens outside of this room; nothing in it waits or looks at a clock otherwise."""

    def clock_ms(self) -> int:
        """Return the time, by a clock that never jumps."""

    def later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        """Have something done later, unless that is cancelled."""

    def notify(self, group: str, members: list[Connection]) -> None:
        """Tell members that their group has changed (40)."""

    def caught(self, what: str, error: Exception, client_id: str) -> None:
        """Count a fault that nobody foresaw, of one member alone."""

    def committed(self, key: GroupQueue) -> int | None:
        """Return the committed offset of a queue."""

    def fetched(self, key: GroupQueue) -> int | None:
        """Return the offset before which a group has fetched all, None where it has nothing."""

    def locked_by(self, key: GroupQueue) -> str | None:
        """Return the client that has locked a queue for orderly consumption."""

    def tell(self, connection: Connection, key: GroupQueue) -> None:
        """Let an owner know that somebody else asks for its queue."""

    def wake_pulls(self, key: GroupQueue) -> None:
        """Serve the pulls that wait on a queue: some of them may read now."""

    def end_pulls(self, connection: Connection, key: GroupQueue) -> None:
        """Answer a connection's waiting pulls as if their time was up."""

    def holds_pull(self, connection: Connection, key: GroupQueue) -> bool:
        """Whether a pull of this connection waits on the queue."""

    def pulls_at(self, connection: Connection, key: GroupQueue) -> int | None:
        """Return the offset at which a pull of this connection waits, None if none does."""

    def commit(self, key: GroupQueue, offset: int) -> None:
        """Commit for a group what a member has done that does not say so itself."""

    def ask_holdings(
        self, connection: Connection, group: str, answered: Callable[[Holdings | None], None]
    ) -> None:
        """Ask a member what it holds (307); `answered` gets None where it does not say."""
