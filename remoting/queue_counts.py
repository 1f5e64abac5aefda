"""How many queues a topic can have, whatever a peer says: who reads a route makes each of them."""

import logging
from collections.abc import Sequence
from typing import Final

from aerobee.remoting.bodies import QueueData

log = logging.getLogger(__name__)

QUEUES_MAX: Final = 65_536  # of a topic on one broker
ROUTE_QUEUES_MAX: Final = 1 << 20  # of a topic on all brokers


def wrong_count(read: int, write: int) -> int | None:
    """Return the number of queues, to read or to write, that cannot be; None if both can."""
    return next((count for count in (read, write) if not 0 <= count <= QUEUES_MAX), None)


def believed(topic: str, queue_datas: Sequence[QueueData]) -> list[QueueData]:
    """Return what a route says of a topic's brokers, without what cannot be.

    A broker that has too many queues, by itself or beside those that have fewer, is left out of
    the topic, with a warning: it harms itself alone.
    """
    left = ROUTE_QUEUES_MAX
    wrong_ones: set[int] = set()
    by_count = sorted(
        enumerate(queue_datas), key=lambda each: (each[1].read_queue_nums, each[1].write_queue_nums)
    )
    for at, data in by_count:
        wrong = wrong_count(data.read_queue_nums, data.write_queue_nums)
        count = max(data.read_queue_nums, data.write_queue_nums)
        if wrong is not None or count > left:
            log.warning(
                "queues left out topic=%s broker=%s queues=%d allowed=%d of_all=%d; correct the"
                " topic there",
                topic,
                data.broker_name,
                count if wrong is None else wrong,
                QUEUES_MAX,
                ROUTE_QUEUES_MAX,
            )
            wrong_ones.add(at)
        else:
            left -= count
    return [data for at, data in enumerate(queue_datas) if at not in wrong_ones]
