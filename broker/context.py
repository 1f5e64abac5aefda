"""The few things that a request processor of the broker may touch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from aerobee.broker.appending import Appender
    from aerobee.broker.broadcast_offsets import BroadcastOffsets
    from aerobee.broker.cold.reads import ColdReads
    from aerobee.broker.delay import DelayService
    from aerobee.broker.delay_offsets import DelayOffsetTable
    from aerobee.broker.groups import GroupTable
    from aerobee.broker.handover import Handovers
    from aerobee.broker.health.troubles import Troubles
    from aerobee.broker.hold import Holds
    from aerobee.broker.hooks import Hooks
    from aerobee.broker.live import Live
    from aerobee.broker.members import Members
    from aerobee.broker.metrics import Metrics
    from aerobee.broker.offsets import OffsetTable
    from aerobee.broker.queue_locks import QueueLocks
    from aerobee.broker.registration import Registration
    from aerobee.broker.request_modes import RequestModeTable
    from aerobee.broker.settings import BrokerSettings
    from aerobee.broker.settings_changes import SettingsChanges
    from aerobee.broker.start.twins import Twins
    from aerobee.broker.tick import Tick
    from aerobee.broker.topic_queues import TopicQueues
    from aerobee.broker.topic_routes import TopicRoutes
    from aerobee.broker.topics import TopicTable
    from aerobee.storage.store import MessageStore


@dataclass(slots=True)
class Context:
    """Built once by `Broker`; only the event loop's thread touches what is in it."""

    live: "Live"
    store: "MessageStore"
    topics: "TopicTable"
    groups: "GroupTable"
    offsets: "OffsetTable"
    members: "Members"
    locks: "QueueLocks"
    handovers: "Handovers"
    routes: "TopicRoutes"
    request_modes: "RequestModeTable"
    broadcasts: "BroadcastOffsets"
    queues: "TopicQueues"
    tick: "Tick"
    appender: "Appender"
    holds: "Holds"
    hooks: "Hooks"
    registration: "Registration"
    metrics: "Metrics"
    troubles: "Troubles"
    twins: "Twins"
    cold_reads: "ColdReads"
    now_ms: Callable[[], int]
    changes: "SettingsChanges"
    delays: "DelayService"
    delay_offsets: "DelayOffsetTable"
    announcing: "dict[str, asyncio.Future[None]]"  # topics on their way to disk and nameservers
    host: tuple[str, int]  # under which clients reach this broker
    store_host: bytes  # ip and port as records carry it: 8 or 20 bytes

    @property
    def settings(self) -> "BrokerSettings":
        """The settings in force at this moment; not to be kept."""
        return self.live.current
