"""Pure strategies that share a topic's queues among the members of a group.

Every member computes its own share from the same two sorted lists; nobody coordinates. A strategy
therefore has to give the same answer in every process and language for the same input.
"""

import logging
from collections.abc import Sequence
from typing import Protocol

from aerobee.client.message import MessageQueue

log = logging.getLogger(__name__)


class Strategy(Protocol):
    """How a group shares queues (AllocateMessageQueueStrategy.java).

    `name` is what RocketMQ calls it. `allocate` gets all the queues of one topic and all the
    client ids of the group, both sorted, and returns the queues of `client_id`.
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


def is_member(group: str, client_id: str, client_ids: Sequence[str]) -> bool:
    """Tell whether `client_id` may take queues; if not, say so in the log.

    Right after a start, or when its heartbeat got lost, a client is missing from the broker's
    list: it then owns nothing (AbstractAllocateMessageQueueStrategy.check).
    """
    if client_id in client_ids:
        return True
    log.info("no member yet group=%s client=%s members=%s", group, client_id, list(client_ids))
    return False


class Averagely:
    """Contiguous ranges; the first members take one more (AllocateMessageQueueAveragely.java)."""

    name = "AVG"

    def allocate(
        self,
        group: str,
        client_id: str,
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],
    ) -> list[MessageQueue]:
        """Return the share of `client_id`: neighbours in the sorted list."""
        if not is_member(group, client_id, client_ids):
            return []
        index = client_ids.index(client_id)
        each, more = divmod(len(queues), len(client_ids))
        start = index * each + min(index, more)
        return list(queues[start : start + each + (index < more)])


class AveragelyByCircle:
    """One queue to each member in turn (AllocateMessageQueueAveragelyByCircle.java)."""

    name = "AVG_BY_CIRCLE"

    def allocate(
        self,
        group: str,
        client_id: str,
        queues: Sequence[MessageQueue],
        client_ids: Sequence[str],
    ) -> list[MessageQueue]:
        """Return the share of `client_id`: every n-th queue."""
        if not is_member(group, client_id, client_ids):
            return []
        return list(queues[client_ids.index(client_id) :: len(client_ids)])
