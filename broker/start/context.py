"""The rooms that a request processor, or a page of the HTTP side, may touch."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from aerobee.remoting.clocks import wall_clock_ms

if TYPE_CHECKING:
    from aerobee.broker.cluster.parts import ClusterStanding
    from aerobee.broker.cold.parts import Cold
    from aerobee.broker.front.parts import Front
    from aerobee.broker.handover.parts import Consumers
    from aerobee.broker.health.parts import Health
    from aerobee.broker.pulls.parts import Pulling
    from aerobee.broker.room import Room
    from aerobee.broker.sends.parts import Sending
    from aerobee.broker.settings.changes import SettingsChanges
    from aerobee.broker.settings.keys import BrokerSettings
    from aerobee.broker.tables.parts import Tables
    from aerobee.broker.writing.parts import Writing
    from aerobee.remoting.message.record import Record
    from aerobee.remoting.net.access.audit import AuditLog
    from aerobee.remoting.net.routes import Dispatcher, Request
    from aerobee.storage.store import MessageStore


class RecordAccess(Protocol):
    """Who knows whether somebody may see a record."""

    def check_seen(self, request: "Request[Any]", record: "Record") -> None:
        """Return where whoever asks may look at its topic's messages; raises RequestError."""

    def check_consumed(self, request: "Request[Any]", record: "Record") -> None:
        """Return where whoever asks may consume its topic's messages; raises RequestError."""

    def check_published(self, request: "Request[Any]", record: "Record") -> None:
        """Return where whoever asks may send to its topic; raises RequestError."""

    def check_changed(self, request: "Request[Any]", record: "Record") -> None:
        """Return where whoever asks may change its topic; raises RequestError."""


class Context(msgspec.Struct):
    """Built once by `Broker`; only the event loop's thread touches what is in it.

    A room that doors need is a field; `rooms` are all that live, features too, in the order of
    their start.
    """

    changes: "SettingsChanges"
    store: "MessageStore"
    tables: "Tables"
    writing: "Writing"
    cold: "Cold"
    consumers: "Consumers"
    cluster: "ClusterStanding"
    front: "Front"
    sends: "Sending"
    pulls: "Pulling"
    health: "Health"
    rooms: "Sequence[Room]"
    dispatcher: "Dispatcher[Context] | None" = None  # when all are made
    records: RecordAccess | None = None  # where requests name records, whose topics decide
    audit: "AuditLog | None" = None  # where changes are noted
    now_ms: Callable[[], int] = wall_clock_ms

    @property
    def settings(self) -> "BrokerSettings":
        """The settings in force at this moment; not to be kept."""
        return self.changes.live.current
