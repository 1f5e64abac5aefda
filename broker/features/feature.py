"""What a room gives to a broker that has it, and what it may be made of."""

import msgspec

from aerobee.broker.cold.parts import Cold
from aerobee.broker.health.parts import Health
from aerobee.broker.members.registry import Members
from aerobee.broker.room import Room
from aerobee.broker.settings.live import Live
from aerobee.broker.tables.parts import Tables
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.placing import Placer
from aerobee.remoting.bodies import TopicConfig


class Parts(msgspec.Struct, frozen=True):
    """The rooms that a feature may be made of; the store is open, and nobody is served yet."""

    live: Live
    writing: Writing
    cold: Cold
    health: Health
    members: Members
    tables: Tables
    asking: TopicConfig | None = None  # the topic for which it is made in a broker that serves


class Feature(Room):
    """A room that a broker can do without; made by its module's `make` when it is wanted."""

    placer: Placer | None = None
    """Who may store messages elsewhere."""
