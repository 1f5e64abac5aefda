"""How the queues of a topic are shared out among the members of a group: the pure arithmetic.

Clients share by themselves, or let a broker do it (QUERY_ASSIGNMENT); either way every member's
share has to come out alike in every process and language, from the same queues and client ids, both
sorted as Java sorts them.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar

VIRTUAL_NODES: Final = 10  # of each member on the ring (AllocateMessageQueueConsistentHash.java)


class Queue(Protocol):
    """One queue, whichever type it has here."""

    @property
    def topic(self) -> str:
        """The topic's name."""
        ...

    @property
    def broker_name(self) -> str:
        """The broker's name."""
        ...

    @property
    def queue_id(self) -> int:
        """The number on that broker."""
        ...


Q = TypeVar("Q", bound=Queue)


def sorted_queues(queues: Iterable[Q]) -> list[Q]:
    """Sort by topic, broker name and number (MessageQueue.compareTo)."""
    return sorted(
        queues,
        key=lambda queue: (_order(queue.topic), _order(queue.broker_name), queue.queue_id),
    )


def sorted_members(client_ids: Iterable[str]) -> list[str]:
    """Sort client ids as Java does: by their UTF-16 units."""
    return sorted(client_ids, key=_order)


def averagely(queues: Sequence[Q], members: Sequence[str], member: str) -> list[Q]:
    """Return neighbours; the first members get one more (AllocateMessageQueueAveragely.java)."""
    if member not in members:
        return []
    index = members.index(member)
    each, more = divmod(len(queues), len(members))
    start = index * each + min(index, more)
    return list(queues[start : start + each + (index < more)])


def in_turn(queues: Sequence[Q], members: Sequence[str], member: str) -> list[Q]:
    """Return every n-th queue (AllocateMessageQueueAveragelyByCircle.java)."""
    if member not in members:
        return []
    return list(queues[members.index(member) :: len(members)])


def by_consistent_hash(
    queues: Sequence[Q],
    members: Sequence[str],
    member: str,
    virtual_nodes: int = VIRTUAL_NODES,
) -> list[Q]:
    """Return the queues behind which `member` comes first on a ring of hashes.

    Few queues move when a member comes or goes (AllocateMessageQueueConsistentHash.java,
    ConsistentHashRouter.java).
    """
    if member not in members:
        return []
    ring, places = _ring(tuple(members), virtual_nodes)
    return [queue for queue in queues if _owner(ring, places, queue) == member]


def allocate(strategy: str, queues: Sequence[Q], members: Sequence[str], member: str) -> list[Q]:
    """Return a member's share by one of STRATEGIES; raises KeyError for any other name."""
    share: list[Q] = STRATEGIES[strategy](queues, members, member)
    return share


STRATEGIES: Final[dict[str, Callable[..., Any]]] = {
    "AVG": averagely,
    "AVG_BY_CIRCLE": in_turn,
    "CONSISTENT_HASH": by_consistent_hash,
}
"""The ways to share that a broker knows, too, by RocketMQ's names."""


@lru_cache(maxsize=64)  # a broker answers every member of a group from the same ring
def _ring(members: tuple[str, ...], virtual_nodes: int) -> tuple[dict[int, str], list[int]]:
    """Return the owner of each place on the ring, and the places in order."""
    ring: dict[int, str] = {}
    for at, client_id in enumerate(members):
        known = 0
        if client_id in members[:at]:  # listed twice: it gets further places
            known = sum(owner == client_id for owner in ring.values())
        for number in range(known, known + virtual_nodes):
            ring[_hash(f"{client_id}-{number}")] = client_id
    return ring, sorted(ring)


def _owner(ring: dict[int, str], places: list[int], queue: Queue) -> str | None:
    if not places:
        return None
    at = bisect_left(places, _hash(_text(queue.topic, queue.broker_name, queue.queue_id)))
    return ring[places[at] if at < len(places) else places[0]]


def _text(topic: str, broker_name: str, queue_id: int) -> str:
    """Write a queue as MessageQueue.toString does."""
    return f"MessageQueue [topic={topic}, brokerName={broker_name}, queueId={queue_id}]"


def _hash(key: str) -> int:
    """Return the first four bytes of the MD5 sum, as a number."""
    import hashlib  # 2 ms, which members of groups with other strategies need not wait

    digest = hashlib.md5(key.encode("utf-8", "replace"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


def _order(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")
