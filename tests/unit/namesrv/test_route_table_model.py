"""Random lives of brokers: the route table against a model that a reader believes at once."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.examples import examples

from aerobee.namesrv.route_table import Registration, RouteTable
from aerobee.remoting.bodies import DataVersion, TopicConfig, TopicConfigSerializeWrapper

ADDRESSES = [f"h:{number}" for number in range(1, 6)]
CLUSTERS = ["c", "d"]
NAMES = ["a", "b", "c"]
TOPICS = ["t1", "t2", "t3", "t4"]


@dataclass
class Process:
    """One registered process of the model."""

    address: str
    name: str
    broker_id: int
    version: int
    heard_ms: int
    timeout_ms: int
    channel: int


@dataclass
class Model:
    """Processes by cluster and address, and the queues of each name's topics."""

    processes: dict[tuple[str, str], Process] = field(default_factory=dict)
    queues: dict[str, dict[str, int]] = field(default_factory=dict)

    def remove(self, place: tuple[str, str]) -> None:
        """One process goes; the last of its name takes the topics along."""
        process = self.processes.pop(place, None)
        if process and all(each.name != process.name for each in self.processes.values()):
            self.queues.pop(process.name, None)


class BrokersComeAndGo(RuleBasedStateMachine):
    """Every step changes the table and the model; then both must say the same."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.table = RouteTable(lambda: self.now_ms)
        self.model = Model()

    @rule(
        cluster=st.sampled_from(CLUSTERS),
        address=st.sampled_from(ADDRESSES),
        name=st.sampled_from(NAMES),
        broker_id=st.integers(0, 2),
        version=st.integers(0, 2),
        topics=st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 16), min_size=2),
        timeout_ms=st.sampled_from([10, 100]),
        channel=st.integers(0, 3),
    )
    def register(
        self,
        cluster: str,
        address: str,
        name: str,
        broker_id: int,
        version: int,
        topics: dict[str, int],
        timeout_ms: int,
        channel: int,
    ) -> None:
        """A process registers, perhaps with another name, cluster or id than before."""
        configs = {
            topic: TopicConfig(topic_name=topic, read_queue_nums=count)
            for topic, count in topics.items()
        }
        wrapper = TopicConfigSerializeWrapper(
            topic_config_table=configs, data_version=DataVersion(counter=version)
        )
        self.table.register(
            Registration(
                cluster=cluster, name=name, broker_id=broker_id, address=address,
                timeout_ms=timeout_ms, topics=wrapper, channel=channel,
            )
        )  # fmt: skip

        place = cluster, address
        before = self.model.processes.get(place)
        if before and before.name != name:
            self.model.remove(place)
            before = None
        same_name = {key: each for key, each in self.model.processes.items() if each.name == name}
        holders = [
            key
            for key, each in same_name.items()
            if each.broker_id == broker_id and each.address != address
        ]
        for key, each in same_name.items():
            if key in holders or (each.address == address and key != place):
                del self.model.processes[key]
        held = [each for each in same_name.values() if each.broker_id == broker_id]
        changed = not held or before is None or before.version != version
        self.model.processes[place] = Process(
            address, name, broker_id, version, self.now_ms, timeout_ms, channel
        )
        queues = self.model.queues.setdefault(name, {})
        if broker_id == 0:
            for topic, count in topics.items():
                if changed or topic not in queues:
                    queues[topic] = count

    @rule(
        cluster=st.sampled_from(CLUSTERS),
        address=st.sampled_from(ADDRESSES),
        name=st.sampled_from(NAMES),
    )
    def unregister(self, cluster: str, address: str, name: str) -> None:
        """A process says that it goes; only its own name counts."""
        self.table.unregister(cluster, name, address)
        process = self.model.processes.get((cluster, address))
        if process is not None and process.name == name:
            self.model.remove((cluster, address))

    @rule(channel=st.integers(0, 3))
    def close(self, channel: int) -> None:
        """A connection ends."""
        self.table.channel_closed(channel)
        for place, each in list(self.model.processes.items()):
            if each.channel == channel:
                self.model.remove(place)

    @rule(
        cluster=st.sampled_from(CLUSTERS),
        address=st.sampled_from(ADDRESSES),
        channel=st.integers(0, 3),
    )
    def heard(self, cluster: str, address: str, channel: int) -> None:
        """A process is heard without registering, perhaps on another connection."""
        known = self.table.touch(cluster, address, channel)
        process = self.model.processes.get((cluster, address))
        assert known is (process is not None)
        if process is not None:
            process.heard_ms, process.channel = self.now_ms, channel

    @rule(passed_ms=st.integers(0, 60))
    def wait(self, passed_ms: int) -> None:
        """Time passes."""
        self.now_ms += passed_ms

    @precondition(lambda self: self.model.processes)
    @rule()
    def expire(self) -> None:
        """The table looks for silent processes."""
        self.table.expire()
        for place, each in list(self.model.processes.items()):
            if each.heard_ms + each.timeout_ms < self.now_ms:
                self.model.remove(place)

    @invariant()
    def both_say_the_same(self) -> None:
        """Processes, addresses and queues agree, and nothing else is left in the table."""
        model, table = self.model, self.table
        assert set(table.live) == set(model.processes)
        addresses: dict[str, dict[int, str]] = {}
        clusters: dict[str, set[str]] = {}
        for (cluster, address), each in model.processes.items():
            addresses.setdefault(each.name, {})[each.broker_id] = address
            clusters.setdefault(cluster, set()).add(each.name)
        assert {name: group.addresses for name, group in table.brokers.items()} == addresses
        assert table.clusters == clusters
        assert all(name in clusters[group.cluster] for name, group in table.brokers.items())
        seen = {
            name: {
                topic: by_broker[name].read_queue_nums
                for topic, by_broker in table.topics.items()
                if name in by_broker
            }
            for name in addresses
        }
        assert seen == {name: model.queues[name] for name in addresses}
        assert all(by_broker for by_broker in table.topics.values())
        assert all(
            table.brokers[name].topics == set(topics) for name, topics in model.queues.items()
        )


BrokersComeAndGo.TestCase.settings = settings(max_examples=examples(75), stateful_step_count=40)
TestBrokersComeAndGo = BrokersComeAndGo.TestCase
