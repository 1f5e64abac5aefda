"""Which messages are stored elsewhere than in their own queue: asked on the checked path."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from aerobee.broker.writing.queues import TopicQueue


class Elsewhere(msgspec.Struct, frozen=True):
    """Where a message is stored that does not go to its own queue, and as what.

    `tags_code` is for its queue entry, `spare_bytes` must be left free among its properties, and
    `appended` is called when it was appended, before it is committed.
    """

    queue: TopicQueue
    tags_code: int
    spare_bytes: int
    appended: Callable[[], None]


class Placer(Protocol):
    """Says which messages are stored elsewhere; asked of every message of the checked path."""

    def elsewhere(
        self, properties: dict[str, str], topic: str, queue_id: int, now_ms: int
    ) -> Elsewhere | None:
        """Return where, with its `properties` changed for there, or None: no business of this one.

        Raises RequestError for properties that cannot be.
        """
