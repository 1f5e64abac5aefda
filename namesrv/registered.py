"""What the route table keeps of brokers: groups of one name, live processes, queues of a topic."""

from collections.abc import Hashable
from typing import Final

import msgspec

from aerobee.remoting.bodies import DataVersion, QueueData, TopicConfig
from aerobee.remoting.codes import Perm

MASTER_ID: Final = 0  # MixAll.MASTER_ID


class BrokerGroup(msgspec.Struct):
    """All processes of one broker name: a master and its slaves.

    They should be in one cluster; `cluster` is that of the first one where they are not.
    """

    cluster: str
    addresses: dict[int, str] = msgspec.field(default_factory=dict)  # by broker id
    clusters: dict[str, str] = msgspec.field(default_factory=dict)  # by address
    zone: str | None = None
    acting_master: bool = False
    topics: set[str] = msgspec.field(default_factory=set)

    @property
    def has_master(self) -> bool:
        """Whether id 0 is registered."""
        return MASTER_ID in self.addresses


class LiveBroker(msgspec.Struct):
    """One process that registered and has to go on doing so."""

    name: str
    data_version: DataVersion
    last_heard_ms: int
    timeout_ms: int
    channel: Hashable
    ha_address: str


class MasterAddress(msgspec.Struct, frozen=True):
    """What a slave is told; None where there is no master."""

    ha_address: str | None = None
    address: str | None = None


def queue_data(name: str, config: TopicConfig, read_only: bool) -> QueueData:
    """Make a route's entry from a topic's configuration."""
    return QueueData(
        broker_name=name,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm & ~Perm.WRITE if read_only else config.perm,
        topic_sys_flag=config.topic_sys_flag,
    )
