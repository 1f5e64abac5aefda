"""Which brokers live where and what topics they have: the nameserver's whole state beside KV.

Synchronous and free of sockets; the clock is a parameter. Invariants:

- every broker name has at least one address, and one address has one id (a slave that became
  master leaves its old id);
- every topic has at least one broker, and every broker of a topic is a known broker name;
- a queue mapping belongs to a topic of a broker: `topics_max` counts it, it goes with both;
- every registered process (`live`) stands under its group's addresses.

Source: RouteInfoManager.java. It differs in what it forgets: a process whose place another one
took, and the queue mappings of brokers and topics that are gone, which Java keeps for ever.
"""

import logging
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from aerobee.namesrv.capacity import Capacity, check_queues
from aerobee.namesrv.registered import (
    MASTER_ID,
    BrokerGroup,
    LiveBroker,
    MasterAddress,
    queue_data,
)
from aerobee.namesrv.twins import Takeovers
from aerobee.remoting.bodies import DataVersion, QueueData, TopicConfigSerializeWrapper
from aerobee.remoting.codes import Perm, ResponseCode
from aerobee.remoting.complaints import Complaints
from aerobee.remoting.errors import RequestError
from aerobee.remoting.words import SELF_TEST_TOPIC

log = logging.getLogger(__name__)

CHANGES_TOLD_MAX: Final = 10  # of one registration: a permission of the broker changes all topics
DEFAULT_TIMEOUT_MS: Final = 120_000  # RouteInfoManager.DEFAULT_BROKER_CHANNEL_EXPIRED_TIME

Place = tuple[str, str]  # (cluster name, "ip:port"): one process


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """What one broker process says of itself.

    `timeout_ms` None is DEFAULT_TIMEOUT_MS; `acting_master` None marks a broker that does not know
    the feature; `filter_servers` None leaves them as they are. `channel` is whatever tells one
    connection from another.
    """

    cluster: str
    name: str
    broker_id: int
    address: str
    ha_address: str = ""
    zone: str | None = None
    timeout_ms: int | None = None
    acting_master: bool | None = None
    topics: TopicConfigSerializeWrapper = msgspec.field(default_factory=TopicConfigSerializeWrapper)
    filter_servers: list[str] | None = None
    channel: Hashable = None

    @property
    def topic_names(self) -> set[str]:
        """The topics under the names by which they become routes."""
        table = self.topics.topic_config_table
        return {config.topic_name or key for key, config in table.items()}

    @property
    def is_full(self) -> bool:
        """Whether these are all of a broker's topics, not only those that changed.

        Every broker has topics named after itself and its cluster, and one to test itself; nobody
        changes all three at once (TopicConfigManager.java).
        """
        return {self.name, self.cluster, SELF_TEST_TOPIC} <= self.topic_names


class RouteTable:
    """The tables, and every change to them."""

    def __init__(
        self,
        clock_ms: Callable[[], int],
        *,
        brokers_max: int = 10_000,
        topics_max: int = 1_000_000,
        route_entries_max: int = 2_000_000,
        delete_missing_topics: bool = False,
    ) -> None:
        self.topics: dict[str, dict[str, QueueData]] = {}  # topic -> broker name -> queues
        self.brokers: dict[str, BrokerGroup] = {}
        self.clusters: dict[str, set[str]] = {}  # cluster -> broker names
        self.live: dict[Place, LiveBroker] = {}
        self.filter_servers: dict[Place, list[str]] = {}
        self.mappings: dict[str, dict[str, Any]] = {}  # static topics: topic -> broker name -> info
        self.complaints = Complaints(clock_ms, log)
        self._twins = Takeovers(self.complaints.tell)
        self._clock_ms = clock_ms
        self._capacity = Capacity(brokers_max, topics_max, route_entries_max, self.complaints)
        self._delete_missing_topics = delete_missing_topics

    # --- brokers come ---

    def register(self, registration: Registration) -> MasterAddress:
        """Take in what a broker says of itself and its topics; tell a slave where its master is.

        Raises RequestError when a broker that is not known registers a single topic (its full
        list has to come first), and beyond a limit (`capacity.py`).
        """
        it = registration
        group = self.brokers.get(it.name)
        if group is not None and self._is_outdated(it, group):
            self._leave_group(it.name, group, it.address)
            return MasterAddress()
        configs = it.topics.topic_config_table
        if len(configs) == 1 and (group is None or it.broker_id not in group.addresses):
            self.complaints.tell(
                "broker refused name=%s address=%s single_topic=1", it.name, it.address
            )
            raise RequestError(ResponseCode.SYSTEM_ERROR, "register broker failed")
        self._check_capacity(it, group)

        place = (it.cluster, it.address)
        group = self._enter_group(it)
        first = self._take_place(it, group)
        previous = self.live.get(place)
        changed = first or previous is None or previous.data_version != it.topics.data_version
        if self._speaks_for_topics(it, group):
            self._update_topics(it, group, changed)
        if previous is None:
            log.info("broker registered name=%s id=%d at=%s", it.name, it.broker_id, it.address)
        self.live[place] = LiveBroker(
            name=it.name,
            data_version=it.topics.data_version,
            last_heard_ms=self._clock_ms(),
            timeout_ms=it.timeout_ms if it.timeout_ms and it.timeout_ms > 0 else DEFAULT_TIMEOUT_MS,
            channel=it.channel,
            ha_address=it.ha_address,
        )
        if it.filter_servers:
            self.filter_servers[place] = it.filter_servers
        elif it.filter_servers is not None:
            self.filter_servers.pop(place, None)
        return self._master_of(it, group)

    def _is_outdated(self, it: Registration, group: BrokerGroup) -> bool:
        """Whether the process that holds this id has a newer state than the one that wants it."""
        holder = group.addresses.get(it.broker_id)
        if holder is None or holder == it.address:
            return False
        live = self.live[group.clusters[holder], holder]
        held, wanted = live.data_version.state_version, it.topics.data_version.state_version
        if held > wanted:
            self.complaints.tell(
                "broker ignored name=%s id=%d at=%s state_version=%d holder=%s holder_version=%d",
                it.name, it.broker_id, it.address, wanted, holder, held,
            )  # fmt: skip
        return held > wanted

    def _check_capacity(self, it: Registration, group: BrokerGroup | None) -> None:
        if (it.cluster, it.address) not in self.live:
            self._capacity.check_brokers(len(self.live))
        names = it.topic_names
        new = names if group is None else names - group.topics
        self._capacity.check_topics(len(self.topics) + len(names - self.topics.keys()), len(new))

    def _enter_group(self, it: Registration) -> BrokerGroup:
        """Find or make the group; a process that had another name or cluster leaves that."""
        former = self.live.get((it.cluster, it.address))
        if former is not None and former.name != it.name:
            self.unregister(it.cluster, former.name, it.address)
        group = self.brokers.setdefault(it.name, BrokerGroup(it.cluster))
        known = group.clusters.get(it.address, it.cluster)
        group.clusters[it.address] = it.cluster
        self.clusters.setdefault(it.cluster, set()).add(it.name)
        if known != it.cluster:
            self._forget_process((known, it.address))
            self._look_at_cluster(it.name, group, known)
        group.acting_master = bool(it.acting_master)
        group.zone = it.zone
        return group

    def _take_place(self, it: Registration, group: BrokerGroup) -> bool:
        """Put the address under its id; return whether nobody had that id."""
        self._leave_ids(group, it.address, keep=it.broker_id)  # a slave may become master
        before = group.addresses.get(it.broker_id)
        if before is not None and before != it.address:
            holder = self.live[group.clusters[before], before]
            silent_ms = self._clock_ms() - holder.last_heard_ms
            self._twins.took_place(it.name, it.broker_id, before, it.address, silent_ms)
            self._leave_group(it.name, group, before)
        group.addresses[it.broker_id] = it.address
        return before is None

    def _speaks_for_topics(self, it: Registration, group: BrokerGroup) -> bool:
        """Whether the topics count: those of the master, or of the first slave of a new broker."""
        if it.broker_id == MASTER_ID:
            return True
        return it.acting_master is not None and it.broker_id == min(group.addresses)

    def _update_topics(self, it: Registration, group: BrokerGroup, changed: bool) -> None:
        if changed or it.topic_names != group.topics:  # else, as every 30 s, all are in the routes
            self._update_queues(it, group, changed)
        for topic, info in it.topics.topic_queue_mapping_info_map.items():
            self._set_mapping(topic, it.name, info)  # of one that was deleted here and is back, too

    def _update_queues(self, it: Registration, group: BrokerGroup, changed: bool) -> None:
        mapped = it.topics.topic_queue_mapping_info_map
        if self._delete_missing_topics and not mapped and it.is_full:
            for topic in group.topics - it.topic_names:
                self._remove_topic_of(topic, it.name)
        read_only = it.broker_id != MASTER_ID and group.acting_master
        others = 0
        for key, config in it.topics.topic_config_table.items():
            topic = config.topic_name or key
            if not self._capacity.believes(topic, it.name, config):
                self._remove_topic_of(topic, it.name)
            elif changed or it.name not in self.topics.get(topic, ()):
                queues = queue_data(it.name, config, read_only)
                others += self._set_queues(topic, queues, tell=others < CHANGES_TOLD_MAX)
        if others > CHANGES_TOLD_MAX:
            log.info("topics set broker=%s count=%d", it.name, others)

    def _set_queues(self, topic: str, queues: QueueData, *, tell: bool = True) -> bool:
        """Return whether the broker had the topic, with other queues."""
        by_broker = self.topics.setdefault(topic, {})
        before = by_broker.get(queues.broker_name)
        if before == queues:
            return False
        if before is not None and tell:
            log.info("topic set topic=%s queues=%s before=%s", topic, queues, before)
        by_broker[queues.broker_name] = queues
        self._capacity.entries += before is None
        self.brokers[queues.broker_name].topics.add(topic)
        return before is not None

    def _set_mapping(self, topic: str, name: str, info: Any) -> None:
        """Keep what a broker says of a static topic, if it is one of its: no route shows others.

        One that a registration leaves out stays: those for a single changed topic, and all but the
        last part of a split one, carry no others (BrokerController.registerIncrementBrokerData).
        """
        inside = info.get("bname") if isinstance(info, dict) else None
        name = inside if inside and isinstance(inside, str) else name
        if name in self.topics.get(topic, ()):
            self.mappings.setdefault(topic, {})[name] = info

    def _master_of(self, it: Registration, group: BrokerGroup) -> MasterAddress:
        master = group.addresses.get(MASTER_ID)
        if it.broker_id == MASTER_ID or master is None:
            return MasterAddress()
        live = self.live[group.clusters[master], master]
        return MasterAddress(live.ha_address, master)

    # --- brokers are heard ---

    def data_version(self, cluster: str, address: str) -> DataVersion | None:
        """Return the version of the topics that a process registered last."""
        live = self.live.get((cluster, address))
        return live.data_version if live else None

    def touch(self, cluster: str, address: str, channel: Hashable) -> bool:
        """Note that a process, if it is known, was heard on a connection and stays as long."""
        live = self.live.get((cluster, address))
        if live is None:
            return False
        live.last_heard_ms = self._clock_ms()
        live.channel = channel
        return True

    # --- brokers go ---

    def unregister(self, cluster: str, name: str, address: str) -> None:
        """Forget a process; with the last one of its name, the name and its topics.

        Nothing happens where it is not known under this name.
        """
        live = self.live.get((cluster, address))
        if live is None or live.name != name:
            return
        group = self.brokers[name]
        self._leave_group(name, group, address)
        if not group.addresses:
            self._forget_group(name, group)
        elif group.acting_master and not group.has_master:
            self._change_perms(name, lambda perm: perm & ~Perm.WRITE)
        log.info("broker unregistered name=%s at=%s", name, address)

    def channel_closed(self, channel: Hashable) -> None:
        """Unregister every process that was heard last on this connection."""
        gone = [(place, live) for place, live in self.live.items() if live.channel is channel]
        for (cluster, address), live in gone:
            self.unregister(cluster, live.name, address)

    def expire(self) -> list[Hashable]:
        """Unregister processes silent beyond their own time-out; return their channels."""
        now_ms = self._clock_ms()
        gone = [
            (place, live)
            for place, live in self.live.items()
            if live.last_heard_ms + live.timeout_ms < now_ms
        ]
        for (cluster, address), live in gone:
            log.warning("broker expired at=%s timeout_ms=%d", address, live.timeout_ms)
            self.unregister(cluster, live.name, address)
        return [live.channel for _, live in gone]

    def _forget_process(self, place: Place) -> None:
        self.live.pop(place, None)
        self.filter_servers.pop(place, None)

    def _leave_group(self, name: str, group: BrokerGroup, address: str) -> None:
        """Forget a process of a group, in whichever cluster it is."""
        self._leave_ids(group, address)
        cluster = group.clusters.pop(address, None)
        if cluster is not None:
            self._forget_process((cluster, address))
            self._look_at_cluster(name, group, cluster)

    def _look_at_cluster(self, name: str, group: BrokerGroup, cluster: str) -> None:
        """Take a group out of a cluster where it has no process any more."""
        if cluster in group.clusters.values():
            return
        self._leave_cluster(name, cluster)
        if group.cluster == cluster:
            group.cluster = next(iter(group.clusters.values()), cluster)

    def _forget_group(self, name: str, group: BrokerGroup) -> None:
        for topic in list(group.topics):
            self._remove_topic_of(topic, name)
        self._twins.forget(name)
        del self.brokers[name]

    def _leave_cluster(self, name: str, cluster: str) -> None:
        names = self.clusters.get(cluster, set())
        names.discard(name)
        if not names:
            self.clusters.pop(cluster, None)

    @staticmethod
    def _leave_ids(group: BrokerGroup, address: str, keep: int | None = None) -> None:
        for broker_id in [i for i, a in group.addresses.items() if a == address and i != keep]:
            del group.addresses[broker_id]

    # --- topics ---

    def register_topic(self, topic: str, queues: Iterable[QueueData]) -> None:
        """Set the queues of one topic; nothing is set when one of the brokers is not known."""
        queues = list(queues)
        unknown = [each.broker_name for each in queues if each.broker_name not in self.brokers]
        if unknown:
            self.complaints.tell("topic refused topic=%s unknown_brokers=%s", topic, unknown)
            return
        for each in queues:
            check_queues(topic, each)
        new = {each.broker_name for each in queues} - self.topics.get(topic, {}).keys()
        self._capacity.check_topics(len(self.topics) + (topic not in self.topics), len(new))
        for each in queues:
            self._set_queues(topic, each)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic, in one cluster or everywhere."""
        names = self.clusters.get(cluster, set()) if cluster else self.topics.get(topic, {}).keys()
        for name in list(names):
            self._remove_topic_of(topic, name)

    def wipe_write_perm(self, name: str) -> int:
        """Let nobody send to a broker any more; return how many topics that concerns."""
        return self._change_perms(name, lambda perm: perm & ~Perm.WRITE)

    def add_write_perm(self, name: str) -> int:
        """Let everybody read from and send to a broker; return how many topics that concerns."""
        return self._change_perms(name, lambda perm: Perm.READ | Perm.WRITE)

    def _change_perms(self, name: str, change: Callable[[int], int]) -> int:
        group = self.brokers.get(name)
        if group is None:
            return 0
        for topic in group.topics:
            queues = self.topics[topic][name]
            self.topics[topic][name] = replace(queues, perm=change(queues.perm))
        return len(group.topics)

    def _remove_topic_of(self, topic: str, name: str) -> None:
        by_broker = self.topics.get(topic, {})
        if by_broker.pop(name, None) is not None:
            self._capacity.entries -= 1
            log.debug("topic removed topic=%s broker=%s", topic, name)
        if not by_broker:
            self.topics.pop(topic, None)
        mapped = self.mappings.get(topic, {})
        mapped.pop(name, None)
        if not mapped:
            self.mappings.pop(topic, None)
        if name in self.brokers:
            self.brokers[name].topics.discard(topic)
