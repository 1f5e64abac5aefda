"""Offsets of broadcasting members that proxies ask for: kept, committed together, forgotten."""

from pathlib import Path

import pytest
from support.stand_ins.fake_connection import FakeConnection

from aerobee.broker.members.group import Client
from aerobee.broker.members.registry import Members
from aerobee.broker.pulls import broadcasts as broadcast_offsets
from aerobee.broker.pulls.broadcasts import (
    COMMIT_INTERVAL_MS,
    OFFLINE_EXPIRY_MS,
    ONLINE_EXPIRY_MS,
    BroadcastOffsets,
)
from aerobee.broker.tables.committed import OffsetTable
from aerobee.remoting.bodies import ConsumerData
from aerobee.remoting.headers.pull import PullMessageRequest


class EmptyStore:
    """A store in which every queue is new."""

    def find_queue(self, topic: str, queue_id: int) -> None:
        """Return no queue."""


class World:
    """Members, offsets and a clock that a test moves."""

    def __init__(self, folder: Path) -> None:
        self.now_ms = 1_000_000
        self.members = Members(lambda group, connections: None, lambda: self.now_ms)
        self.offsets = OffsetTable(lambda: self.now_ms, folder)
        self.broadcasts = BroadcastOffsets(
            self.members,
            self.offsets,
            EmptyStore(),  # type: ignore[arg-type]
            lambda: self.now_ms,
        )

    def join(self, client_id: str, model: str = "BROADCASTING") -> FakeConnection:
        """Add a member to group g."""
        connection = FakeConnection()
        data = ConsumerData(group_name="g", message_model=model, consume_type="CONSUME_PASSIVELY")
        client = Client(connection, client_id, 0, 513)
        self.members.register_consumer(client, data, notified=True)
        return connection

    def pull(
        self,
        connection: FakeConnection,
        offset: int,
        queue_id: int = 0,
        proxy_for: str | None = None,
    ) -> int | None:
        """Pull as a client, or as a proxy for one; return where it was sent."""
        header = PullMessageRequest(
            consumer_group="g",
            topic="t",
            queue_id=queue_id,
            queue_offset=offset,
            max_msg_nums=32,
            sys_flag=0,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            request_source=None if proxy_for is None else 1,
            proxy_froward_client_id=proxy_for,
        )
        if "g" not in self.broadcasts.groups and proxy_for is None:
            return None
        sent = self.broadcasts.initial(connection, header)
        self.broadcasts.pulled(connection, header, sent)
        return sent


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world in which nobody has pulled."""
    return World(tmp_path)


def test_a_member_that_keeps_its_offsets_is_left_alone(world: World) -> None:
    """Whatever it pulls, forwards or back."""
    member = world.join("c1")
    assert [world.pull(member, offset) for offset in (0, 50, 7)] == [None] * 3


def test_a_clustering_group_is_no_concern(world: World) -> None:
    """Nothing is noted of it, so a proxy is told the beginning."""
    member = world.join("c1", "CLUSTERING")
    world.pull(member, 50)
    assert world.pull(member, -1, proxy_for="c1") == 0


def test_a_proxy_is_told_where_its_client_was(world: World) -> None:
    """Each queue by itself; where the broker knows nothing the client begins afresh."""
    member, proxy = world.join("c1"), FakeConnection("10.0.0.9:1")
    world.pull(member, 50)
    assert world.pull(proxy, -1, proxy_for="c1") == 50
    assert world.pull(proxy, -1, queue_id=1, proxy_for="c1") == 0
    assert world.pull(proxy, 60, proxy_for="c1") is None
    assert world.pull(member, 3) == 60, "and the client, when it comes by itself again"


def test_what_all_have_passed_is_committed_for_those_who_are_new(world: World) -> None:
    """The least of all members, under a name of its own, at intervals."""
    first, second = world.join("c1"), world.join("c2")
    world.pull(first, 80)
    world.pull(second, 30)
    assert world.offsets.committed("g@broadcast", "t", 0) is None
    world.now_ms += COMMIT_INTERVAL_MS
    world.pull(first, 90)
    assert world.offsets.committed("g@broadcast", "t", 0) == 30
    assert world.pull(FakeConnection("10.0.0.9:1"), -1, proxy_for="c3") == 30


def test_the_silent_are_forgotten(world: World) -> None:
    """Those who left after two minutes, those who are connected after five."""
    gone, silent, busy = world.join("c1"), world.join("c2"), world.join("c3")
    for number, member in enumerate((gone, silent, busy)):
        world.pull(member, 10 * (number + 1))
    world.members.closed(gone)

    def committed_after(interval_ms: int) -> int | None:
        world.now_ms += interval_ms
        world.pull(busy, 100)
        return world.offsets.committed("g@broadcast", "t", 0)

    assert committed_after(COMMIT_INTERVAL_MS) == 10
    assert committed_after(OFFLINE_EXPIRY_MS) == 20
    assert committed_after(ONLINE_EXPIRY_MS) == 20, "counted once more as it is forgotten"
    assert committed_after(COMMIT_INTERVAL_MS) == 100


def test_a_proxy_cannot_fill_the_memory(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may name any client; those beyond the limit are not noted, only served."""
    monkeypatch.setattr(broadcast_offsets, "CLIENTS_MAX", 2)
    proxy = FakeConnection()
    for name in ("c1", "c2", "c3"):
        world.pull(proxy, 50, proxy_for=name)
    assert [world.pull(proxy, -1, proxy_for=name) for name in ("c2", "c3")] == [50, 0]
