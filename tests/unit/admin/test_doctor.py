"""What the doctor sees of clusters that are not well, and how a broker is drained."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from aerobee.admin import AdminClient
from aerobee.admin.brokers import DrainState
from aerobee.admin.doctor import Finding
from aerobee.client import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage
from aerobee.client.errors import Unavailable
from aerobee.remoting.codes import Perm
from aerobee.testing import EmbeddedCluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    """A nameserver and a broker."""
    async with EmbeddedCluster(root=tmp_path) as running:
        await running.create_topic("orders", 2)
        yield running


def wrong(found: list[Finding]) -> list[str]:
    """Return what is not well, in words."""
    assert all(each.do for each in found if each.state == "error")
    return [each.what for each in found if each.state != "ok"]


async def handle(message: ReceivedMessage) -> None:
    """Take a message."""


async def test_a_sound_cluster_is_sound(cluster: EmbeddedCluster) -> None:
    """Nothing is found where nothing is wrong."""
    async with AdminClient(cluster.namesrv_addr) as admin:
        found = await admin.doctor.examine(topic="orders")
    assert {each.state for each in found} == {"ok"} and len(found) == 3


async def test_members_that_want_different_things_are_found(cluster: EmbeddedCluster) -> None:
    """The usual reason for messages that nobody gets."""
    same = [PushConsumer("mixed", namesrv=cluster.namesrv_addr) for _ in range(2)]
    for consumer, tags in zip(same, ("a", "b"), strict=True):
        consumer.subscribe("orders", handle, tags=tags)
    async with AdminClient(cluster.namesrv_addr) as admin, same[0], same[1]:
        found = await admin.doctor.examine(group="mixed")
        (what,) = wrong(found)
        assert "members subscribe to different things" in what
        assert "orders: a" in what and "orders: b" in what
    async with AdminClient(cluster.namesrv_addr) as admin:
        assert "has no connected members" in wrong(await admin.doctor.examine(group="mixed"))[0]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"commitLogDiskRatio": "0.8"}, "the disk of its log is 80% full"),
        ({"consumeQueueDiskRatio": "0.97"}, "the disk of its queues is 97% full"),
        ({"bootTimestamp": "1000"}, "s behind this machine's"),
        ({"bootTimestamp": "9000000000000"}, "s before this machine's"),
        ({"bootTimestamp": "x", "commitLogDiskRatio": "y"}, None),
    ],
)
async def test_disks_and_clocks_are_looked_at(
    cluster: EmbeddedCluster,
    monkeypatch: pytest.MonkeyPatch,
    changes: Mapping[str, str],
    what: str | None,
) -> None:
    """By what brokers say of themselves; nonsense is passed over."""
    async with AdminClient(cluster.namesrv_addr) as admin:
        state = admin.broker.state

        async def changed(address: str) -> dict[str, str]:
            return {**await state(address), **changes}

        monkeypatch.setattr(admin.broker, "state", changed)
        found = wrong(await admin.doctor.examine())
    assert [each for each in found if what is None or what not in each] == []
    assert len(found) == (what is not None)


async def test_an_address_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    """Clients are told brokerIP1, whatever it is."""
    settings = {"broker_ip1": "192.0.2.1"}
    async with (
        EmbeddedCluster(root=tmp_path, broker_settings=settings) as cluster,
        AdminClient(cluster.namesrv_addr) as admin,
    ):
        (what,) = wrong(await admin.doctor.examine())
    assert "is not reached at the address that it tells clients" in what


async def test_a_cluster_without_brokers(tmp_path: Path) -> None:
    """The nameserver answers, and knows nobody."""
    async with (
        EmbeddedCluster(brokers=0, root=tmp_path) as cluster,
        AdminClient(cluster.namesrv_addr) as admin,
    ):
        assert wrong(await admin.doctor.examine()) == ["no broker has registered"]


async def test_a_broker_is_drained_while_its_groups_consume(cluster: EmbeddedCluster) -> None:
    """It takes nothing more, and is done when all that it has is consumed."""
    states: list[DrainState] = []
    go_on = asyncio.Event()

    async def slow(message: ReceivedMessage) -> None:
        await go_on.wait()

    def progress(state: DrainState) -> None:
        states.append(state)
        go_on.set()

    first = ConsumeFrom.FIRST
    consumer = PushConsumer("slow", namesrv=cluster.namesrv_addr, consume_from=first)
    consumer.subscribe("orders", slow)
    producer = Producer("test", namesrv=cluster.namesrv_addr)
    async with AdminClient(cluster.namesrv_addr) as admin, producer, consumer:
        for number in range(10):
            await producer.send(Message("orders", b"%d" % number))
        done = await admin.broker.drain("broker-a", timeout_s=60, settle_s=0, progress=progress)
        assert done.is_done and states[0].lags == {"slow": 10}
        route = await admin.route("orders")
        assert route is not None and not route.queue_datas[0].perm & Perm.WRITE
        await admin.broker.set("broker-a", {"brokerPermission": "6"})


async def test_a_drain_that_ends_early_lets_the_broker_take_messages_again(
    cluster: EmbeddedCluster,
) -> None:
    """When the time is up, and when it is cancelled."""
    async with AdminClient(cluster.namesrv_addr) as admin:
        consumer = PushConsumer("gone", namesrv=cluster.namesrv_addr)
        consumer.subscribe("orders", handle)
        async with consumer, Producer("test", namesrv=cluster.namesrv_addr) as producer:
            await producer.send(Message("orders", b"one"))
        plan = await admin.offset.plan("gone", "orders", 0, is_offset=True)
        await admin.offset.apply(plan)
        with pytest.raises(Unavailable, match="it takes messages again"):
            await admin.broker.drain("broker-a", timeout_s=0.1)
        assert (await admin.broker.settings("broker-a"))["brokerPermission"] == "6"
        await admin.broker.drain("broker-a", timeout_s=60, settle_s=0, skip_absent=True)
        await admin.broker.set("broker-a", {"brokerPermission": "6"})
        looked = asyncio.Event()
        drain = admin.broker.drain("broker-a", progress=lambda state: looked.set())
        task = asyncio.ensure_future(drain)
        await looked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await admin.broker.settings("broker-a"))["brokerPermission"] == "6"
