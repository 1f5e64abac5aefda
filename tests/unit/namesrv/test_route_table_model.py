"""Random lives of brokers: the route table against a model that a reader believes at once."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aerobee.namesrv.route_table import Registration, RouteTable
from aerobee.remoting.bodies import DataVersion, TopicConfig, TopicConfigSerializeWrapper

ADDRESSES = [f"h:{number}" for number in range(1, 6)]
NAMES = ["a", "b", "c"]
TOPICS = ["t1", "t2", "t3", "t4"]


@dataclass
class Process:
    """One registered process of the model."""

    name: str
    broker_id: int
    version: int
    heard_ms: int
    timeout_ms: int
    channel: int


@dataclass
class Model:
    """Processes by address, and the queues of each name's topics."""

    processes: dict[str, Process] = field(default_factory=dict)
    queues: dict[str, dict[str, int]] = field(default_factory=dict)

    def remove(self, address: str) -> None:
        """One process goes; the last of its name takes the topics along."""
        process = self.processes.pop(address, None)
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
        address: str,
        name: str,
        broker_id: int,
        version: int,
        topics: dict[str, int],
        timeout_ms: int,
        channel: int,
    ) -> None:
        """A process registers, perhaps with another name, id or version than before."""
        configs = {
            topic: TopicConfig(topic_name=topic, read_queue_nums=count)
            for topic, count in topics.items()
        }
        wrapper = TopicConfigSerializeWrapper(
            topic_config_table=configs, data_version=DataVersion(counter=version)
        )
        self.table.register(
            Registration(
                cluster="c", name=name, broker_id=broker_id, address=address,
                timeout_ms=timeout_ms, topics=wrapper, channel=channel,
            )
        )  # fmt: skip

        before = self.model.processes.get(address)
        if before and before.name != name:
            self.model.remove(address)
            before = None
        holders = [
            other
            for other, each in self.model.processes.items()
            if (each.name, each.broker_id) == (name, broker_id)
        ]
        for other in holders:
            del self.model.processes[other]
        changed = not holders or before is None or before.version != version
        self.model.processes[address] = Process(
            name, broker_id, version, self.now_ms, timeout_ms, channel
        )
        queues = self.model.queues.setdefault(name, {})
        if broker_id == 0:
            for topic, count in topics.items():
                if changed or topic not in queues:
                    queues[topic] = count

    @rule(address=st.sampled_from(ADDRESSES))
    def unregister(self, address: str) -> None:
        """A process says that it goes."""
        process = self.model.processes.get(address)
        self.table.unregister("c", process.name if process else "nobody", address)
        self.model.remove(address)

    @rule(channel=st.integers(0, 3))
    def close(self, channel: int) -> None:
        """A connection ends."""
        self.table.channel_closed(channel)
        for address, each in list(self.model.processes.items()):
            if each.channel == channel:
                self.model.remove(address)

    @rule(address=st.sampled_from(ADDRESSES))
    def heard(self, address: str) -> None:
        """A process is heard without registering."""
        self.table.touch("c", address)
        if address in self.model.processes:
            self.model.processes[address].heard_ms = self.now_ms

    @rule(passed_ms=st.integers(0, 60))
    def wait(self, passed_ms: int) -> None:
        """Time passes."""
        self.now_ms += passed_ms

    @precondition(lambda self: self.model.processes)
    @rule()
    def expire(self) -> None:
        """The table looks for silent processes."""
        self.table.expire()
        for address, each in list(self.model.processes.items()):
            if each.heard_ms + each.timeout_ms < self.now_ms:
                self.model.remove(address)

    @invariant()
    def both_say_the_same(self) -> None:
        """Processes, addresses and queues agree, and nothing else is left in the table."""
        model, table = self.model, self.table
        assert {address for _, address in table.live} == set(model.processes)
        addresses: dict[str, dict[int, str]] = {}
        for address, each in model.processes.items():
            addresses.setdefault(each.name, {})[each.broker_id] = address
        assert {name: group.addresses for name, group in table.brokers.items()} == addresses
        assert table.clusters == ({"c": set(addresses)} if addresses else {})
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


BrokersComeAndGo.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestBrokersComeAndGo = BrokersComeAndGo.TestCase
