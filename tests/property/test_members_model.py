"""Members against a model of sets, under any order of joins, changes, departures and silence."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from support.stand_ins.fake_connection import FakeConnection

from aerobee.broker.members.group import Client
from aerobee.broker.members.registry import EXPIRED_MS, Members
from aerobee.remoting.bodies import ConsumerData, SubscriptionData
from aerobee.remoting.net.connection import Connection

GROUPS = st.sampled_from(["g", "h"])
NUMBERS = st.integers(min_value=0, max_value=3)
TOPICS = st.sets(st.sampled_from(["t", "u", "v"]), max_size=3)


class MembersMachine(RuleBasedStateMachine):
    """Four connections in two groups; `model` is what must be known, `expected` what be told."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000_000
        self.told: list[tuple[str, frozenset[Connection]]] = []
        self.expected: list[tuple[str, frozenset[Connection]]] = []
        self.members = Members(
            lambda group, members: self.told.append((group, frozenset(members))),
            lambda: self.now_ms,
        )
        self.connections = [FakeConnection(f"10.0.0.{number}:1") for number in range(4)]
        self.model: dict[str, dict[Connection, int]] = {"g": {}, "h": {}}
        self.topics: dict[str, set[str]] = {"g": set(), "h": set()}

    def change(self, group: str) -> None:
        """Expect the members of a group to be told."""
        if self.model[group]:
            self.expected.append((group, frozenset(self.model[group])))
        else:
            self.topics[group] = set()

    @rule(number=NUMBERS, group=GROUPS, topics=TOPICS)
    def beat(self, number: int, group: str, topics: set[str]) -> None:
        """A heartbeat joins, and changes the topics of the whole group."""
        connection = self.connections[number]
        joined = connection not in self.model[group]
        changed = topics != self.topics[group]
        self.model[group][connection] = self.now_ms
        self.topics[group] = topics
        if joined or changed:
            self.change(group)
        data = ConsumerData(
            group_name=group,
            subscription_data_set=[SubscriptionData(topic=topic) for topic in sorted(topics)],
        )
        client = Client(connection, f"c{number}", 0, 513)
        assert self.members.register_consumer(client, data, notified=True) is (joined or changed)

    @rule(number=NUMBERS, group=GROUPS)
    def leave(self, number: int, group: str) -> None:
        """Unregistering twice, or without having been there, is no change."""
        connection = self.connections[number]
        if self.model[group].pop(connection, None) is not None:
            self.change(group)
        self.members.unregister_consumer(connection, group)

    @rule(number=NUMBERS)
    def close(self, number: int) -> None:
        """A closed connection leaves all its groups."""
        connection = self.connections[number]
        for group in ("g", "h"):
            if self.model[group].pop(connection, None) is not None:
                self.change(group)
        self.members.closed(connection)

    @rule(step_ms=st.integers(min_value=0, max_value=EXPIRED_MS))
    def expire(self, step_ms: int) -> None:
        """Time passes; the silent are removed, then the others told once."""
        self.now_ms += step_ms
        silent = set()
        for group, members in self.model.items():
            gone = [each for each, heard in members.items() if self.now_ms - heard > EXPIRED_MS]
            for connection in gone:
                del members[connection]
            silent.update(gone)
            if gone:
                self.change(group)
        removed = self.members.expire()
        assert set(removed) == silent and len(removed) == len(silent)

    @invariant()
    def knows_the_same(self) -> None:
        """Groups, members in their order, topics and notices agree with the model."""
        assert sorted(self.told, key=str) == sorted(self.expected, key=str)
        assert {group.name for group in self.members.groups()} == {
            group for group, members in self.model.items() if members
        }
        for group, members in self.model.items():
            wanted = {f"c{n}" for n, each in enumerate(self.connections) if each in members}
            assert set(self.members.client_ids(group)) == wanted
            known = self.members.group(group)
            assert known is None or set(known.subscriptions) == self.topics[group]
            assert known is None or set(known.filters) == set(known.subscriptions)


TestMembers = MembersMachine.TestCase
TestMembers.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
