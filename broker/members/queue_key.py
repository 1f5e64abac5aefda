"""A queue as a group sees it."""

from typing import NamedTuple


class QueueKey(NamedTuple):
    """A queue of this broker as one group consumes it."""

    group: str
    topic: str
    queue_id: int
