"""Strategies that share a topic's queues among the members of a group.

Every member computes its own share from the same two sorted lists; nobody coordinates. A strategy
therefore has to give the same answer in every process and language for the same input.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from aerobee.client.errors import InvalidUse
from aerobee.client.message import MessageQueue
from aerobee.remoting.allocation import VIRTUAL_NODES, averagely, by_consistent_hash, in_turn

log = logging.getLogger(__name__)


class Strategy(Protocol):
    """How a group shares queues (AllocateMessageQueueStrategy.java).

    `name` is what RocketMQ calls it. `allocate` gets all the queues of one topic and all the
    client ids of the group, both sorted, and returns the queues of `client_id`. What it raises is
    logged, and the member keeps the queues that it has.
    """

    @property
    def name(self) -> str:
        """The strategy's name as RocketMQ writes it."""
        ...

    def allocate(
        self,
        group: str,
        client_id: str,
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],
    ) -> list[MessageQueue]:
        """Return the share of `client_id`; empty if it is not among `client_ids`."""
        ...


class ShareRequest(NamedTuple):
    """What `Strategy.allocate` is asked with."""

    group: str
    client_id: str
    queues: Sequence[MessageQueue]
    client_ids: Sequence[str]


class AmongMembers(ABC):
    """Shares among those whom the broker lists; who is not listed owns nothing.

    Right after a start, or when its heartbeat got lost, a client is missing from the list: that is
    told in the log (AbstractAllocateMessageQueueStrategy.java).
    """

    def allocate(
        self,
        group: str,
        client_id: str,
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],
    ) -> list[MessageQueue]:
        """Return the share of `client_id`; empty if it is not among `client_ids`."""
        if client_id not in client_ids:
            log.info(
                "no member yet group=%s client=%s members=%s", group, client_id, list(client_ids)
            )
            return []
        return self._share(ShareRequest(group, client_id, queues, client_ids))

    @abstractmethod
    def _share(self, asked: ShareRequest) -> list[MessageQueue]:
        """Return the share of a client that is among the members."""


class Averagely(AmongMembers):
    """Contiguous ranges; the first members take one more (AllocateMessageQueueAveragely.java)."""

    name = "AVG"

    def _share(self, asked: ShareRequest) -> list[MessageQueue]:
        """Return the share of `client_id`: neighbours in the sorted list."""
        return averagely(asked.queues, asked.client_ids, asked.client_id)


class AveragelyByCircle(AmongMembers):
    """One queue to each member in turn (AllocateMessageQueueAveragelyByCircle.java)."""

    name = "AVG_BY_CIRCLE"

    def _share(self, asked: ShareRequest) -> list[MessageQueue]:
        """Return the share of `client_id`: every n-th queue."""
        return in_turn(asked.queues, asked.client_ids, asked.client_id)


class ConsistentHash(AmongMembers):
    """By places on a ring of hashes (AllocateMessageQueueConsistentHash.java).

    Few queues change hands when members come or go, at the price of uneven shares; all members
    must use the same number of `virtual_nodes`.
    """

    name = "CONSISTENT_HASH"

    def __init__(self, virtual_nodes: int = VIRTUAL_NODES) -> None:
        """Give each member so many places; raises InvalidUse below 0."""
        if virtual_nodes < 0:
            raise InvalidUse(f"virtual_nodes={virtual_nodes}: it must be 0 or more")
        self._virtual_nodes = virtual_nodes

    def _share(self, asked: ShareRequest) -> list[MessageQueue]:
        """Return the queues that come before `client_id` on the ring."""
        queues, members, nodes = asked.queues, asked.client_ids, self._virtual_nodes
        return by_consistent_hash(queues, members, asked.client_id, nodes)


class ByConfig:
    """The same queues whoever else is there (AllocateMessageQueueByConfig.java)."""

    name = "CONFIG"

    def __init__(self, queues: Collection[MessageQueue]) -> None:
        """Take these queues, of any topics."""
        self._queues = list(queues)

    def allocate(
        self,
        group: str,
        client_id: str,
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],
    ) -> list[MessageQueue]:
        """Return the configured queues."""
        return list(self._queues)


class ByMachineRoom(AmongMembers):
    """Evenly, but only the queues of some rooms (AllocateMessageQueueByMachineRoom.java).

    A broker's name tells its room: "room@broker". What is left over goes to the first members, one
    each.
    """

    name = "MACHINE_ROOM"

    def __init__(self, rooms: Collection[str]) -> None:
        """Consume from the brokers of these rooms (consumeridcs)."""
        self._rooms = frozenset(rooms)

    def _share(self, asked: ShareRequest) -> list[MessageQueue]:
        """Return the share of `client_id` in the queues of the rooms."""
        near = [queue for queue in asked.queues if _room(queue.broker_name) in self._rooms]
        index, members = asked.client_ids.index(asked.client_id), len(asked.client_ids)
        each, more = divmod(len(near), members)
        mine = near[index * each : (index + 1) * each]
        if index < more:
            mine.append(near[each * members + index])
        return mine


class MachineRoomNearby(AmongMembers):
    """Each room's queues to the room's members (AllocateMachineRoomNearby.java).

    `inner` shares them within the room; the queues of a room without members are shared by all.
    """

    def __init__(
        self,
        inner: Strategy,
        *,
        room_of_queue: Callable[[MessageQueue], str],
        room_of_client: Callable[[str], str],
    ) -> None:
        """Ask the two functions where a queue's broker and a client id live."""
        self._inner = inner
        self._room_of_queue = room_of_queue
        self._room_of_client = room_of_client

    @property
    def name(self) -> str:
        """Both names."""
        return f"MACHINE_ROOM_NEARBY-{self._inner.name}"

    def _share(self, asked: ShareRequest) -> list[MessageQueue]:
        """Return the share of `client_id`; raises InvalidUse where a function names no room."""
        queues_of: dict[str, list[MessageQueue]] = {}
        for queue in asked.queues:
            queues_of.setdefault(_named(self._room_of_queue(queue), queue), []).append(queue)
        clients_of: dict[str, list[str]] = {}
        for each in asked.client_ids:
            clients_of.setdefault(_named(self._room_of_client(each), each), []).append(each)
        here = self._room_of_client(asked.client_id)
        share: list[MessageQueue] = []
        for room in sorted(queues_of, key=lambda room: (room != here, room)):
            if room == here:
                members: Sequence[str] = clients_of[here]
            elif room not in clients_of:
                members = asked.client_ids
            else:
                continue
            share += self._inner.allocate(asked.group, asked.client_id, queues_of[room], members)
        return share


def _room(broker_name: str) -> str | None:
    """Return the part before the @ of a name that has two, as Java's split counts them."""
    parts = broker_name.rstrip("@").split("@")
    return parts[0] if len(parts) == 2 else None


def _named(room: str, of: object) -> str:
    if not room:
        raise InvalidUse(f"no machine room is known of {of}")
    return room
