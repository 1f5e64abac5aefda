"""What a room gives to a broker that has it, and what it may be made of."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from aerobee.broker.cold.parts import Cold
from aerobee.broker.health.parts import Health
from aerobee.broker.members.registry import Members
from aerobee.broker.room import Room
from aerobee.broker.settings.live import Live
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.queues import TopicQueue


@dataclass(frozen=True, slots=True)
class Parts:
    """The rooms that a feature may be made of; the store is open, and nobody is served yet."""

    live: Live
    writing: Writing
    cold: Cold
    health: Health
    members: Members


@dataclass(frozen=True, slots=True)
class Elsewhere:
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


class Feature(Room):
    """A room that a broker can do without; made by its module's `make` when it is wanted."""

    placer: Placer | None = None
    """Who may store messages elsewhere."""
