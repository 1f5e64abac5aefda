"""The few things that a request processor of the broker may touch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aerobee.broker.cluster.parts import Cluster
    from aerobee.broker.cold.parts import Cold
    from aerobee.broker.features.listed import Features
    from aerobee.broker.front.lateness import Lateness
    from aerobee.broker.front.ports import Ports
    from aerobee.broker.handover.parts import MemberParts
    from aerobee.broker.health.metrics import Metrics
    from aerobee.broker.health.troubles import Troubles
    from aerobee.broker.hooks import Hooks
    from aerobee.broker.pulls.parts import PullParts
    from aerobee.broker.sends.parts import Sends
    from aerobee.broker.settings.changes import SettingsChanges
    from aerobee.broker.settings.keys import BrokerSettings
    from aerobee.broker.settings.live import Live
    from aerobee.broker.tables.parts import Tables
    from aerobee.broker.writing.parts import Writing
    from aerobee.storage.store import MessageStore


@dataclass(slots=True)
class Context:
    """Built once by `Broker`; only the event loop's thread touches what is in it."""

    live: "Live"
    store: "MessageStore"
    tables: "Tables"
    writing: "Writing"
    cold: "Cold"
    consumers: "MemberParts"
    cluster: "Cluster"
    ports: "Ports"
    sends: "Sends"
    pulls: "PullParts"
    features: "Features"
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
