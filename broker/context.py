"""The few things that a request processor of the broker may touch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aerobee.broker.announcing import Announcements
    from aerobee.broker.broadcast_offsets import BroadcastOffsets
    from aerobee.broker.cold.lookups import Lookups
    from aerobee.broker.cold.reads import ColdReads
    from aerobee.broker.delay import DelayService
    from aerobee.broker.health.troubles import Troubles
    from aerobee.broker.hold import Holds
    from aerobee.broker.hooks import Hooks
    from aerobee.broker.live import Live
    from aerobee.broker.member_parts import MemberParts
    from aerobee.broker.metrics import Metrics
    from aerobee.broker.overload.lateness import Lateness
    from aerobee.broker.placing import Placing
    from aerobee.broker.registration import Registration
    from aerobee.broker.send_back import Retries
    from aerobee.broker.send_checks import SendChecks
    from aerobee.broker.settings import BrokerSettings
    from aerobee.broker.settings_changes import SettingsChanges
    from aerobee.broker.start.twins import Twins
    from aerobee.broker.tables import Tables
    from aerobee.broker.topic_routes import TopicRoutes
    from aerobee.broker.written import Writing
    from aerobee.storage.store import MessageStore


@dataclass(slots=True)
class Context:
    """Built once by `Broker`; only the event loop's thread touches what is in it."""

    live: "Live"
    store: "MessageStore"
    tables: "Tables"
    writing: "Writing"
    consumers: "MemberParts"
    registration: "Registration"
    announcements: "Announcements"
    routes: "TopicRoutes"
    twins: "Twins"
    placing: "Placing"
    sends: "SendChecks"
    retries: "Retries"
    delays: "DelayService"
    holds: "Holds"
    broadcasts: "BroadcastOffsets"
    cold_reads: "ColdReads"
    lookups: "Lookups"
    lateness: "Lateness"
    hooks: "Hooks"
    metrics: "Metrics"
    troubles: "Troubles"
    changes: "SettingsChanges"
    now_ms: Callable[[], int]
    host: tuple[str, int]  # under which clients reach this broker
    store_host: bytes  # ip and port as records carry it: 8 or 20 bytes

    @property
    def settings(self) -> "BrokerSettings":
        """The settings in force at this moment; not to be kept."""
        return self.live.current
