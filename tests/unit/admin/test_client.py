"""The administration client against servers in this process."""

import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aerobee.admin import AdminClient
from aerobee.client import BrokerRefused, InvalidUse
from aerobee.client.cluster.directory import BrokerEntry
from aerobee.remoting.errors import Unavailable
from aerobee.testing import EmbeddedCluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    """A nameserver and two brokers."""
    async with EmbeddedCluster(brokers=2, root=tmp_path) as running:
        yield running


def dead_address() -> str:
    """Return an address on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        return f"127.0.0.1:{gone.getsockname()[1]}"


async def test_brokers_topics_and_queues_are_listed(cluster: EmbeddedCluster) -> None:
    """What was made is found again, per broker."""
    async with AdminClient(cluster.namesrv_addr) as admin:
        made = await admin.create_topic("orders", 3)
        expected = [
            BrokerEntry("DefaultCluster", name, 0, address)
            for name, address in zip(["broker-a", "broker-b"], cluster.broker_addrs, strict=True)
        ]
        assert made == expected
        assert await admin.brokers() == await admin.masters() == expected
        assert "orders" in await admin.topics()
        assert await admin.queues("orders") == {"broker-a": 3, "broker-b": 3}
        assert (await admin.all_queues())["orders"] == {"broker-a": 3, "broker-b": 3}
        await admin.create_topic("orders", 5)
        assert await admin.queues("orders") == {"broker-a": 5, "broker-b": 5}


async def test_a_topic_that_nobody_has_has_no_queues(cluster: EmbeddedCluster) -> None:
    """It may have been deleted between the list and the question."""
    async with AdminClient(cluster.namesrv_addr) as admin:
        assert await admin.queues("never-made") == {}


async def test_many_topics_are_asked_for_in_turns(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No topic is left out at the border of two turns."""
    monkeypatch.setattr("aerobee.admin.client.TOPICS_AT_ONCE", 3)
    async with AdminClient(cluster.namesrv_addr) as admin:
        everything = await admin.all_queues()
        assert list(everything) == await admin.topics()
        assert len(everything) > 3 and all(everything.values())


async def test_a_silent_nameserver_is_passed_over(cluster: EmbeddedCluster) -> None:
    """The next one knows the same; where none answers all of them are named."""
    dead = dead_address()
    async with AdminClient(f"{dead};{cluster.namesrv_addr}") as admin:
        assert len(await admin.brokers()) == 2
    other = dead_address()
    async with AdminClient([dead, other]) as admin:
        with pytest.raises(Unavailable) as silent:
            await admin.brokers()
    assert dead in str(silent.value) and other in str(silent.value)


async def test_a_refusal_has_the_brokers_words(cluster: EmbeddedCluster) -> None:
    """The caller learns which broker refused what."""
    async with AdminClient(cluster.namesrv_addr) as admin:
        with pytest.raises(BrokerRefused, match="no blanks") as refused:
            await admin.create_topic("no blanks", 1)
    assert refused.value.address == cluster.broker_addrs[0]


async def test_without_brokers_no_topic_can_be_made(tmp_path: Path) -> None:
    """A nameserver alone keeps no topics."""
    async with (
        EmbeddedCluster(brokers=0, root=tmp_path) as cluster,
        AdminClient(cluster.namesrv_addr) as admin,
    ):
        assert await admin.brokers() == []
        with pytest.raises(Unavailable, match="no broker has registered"):
            await admin.create_topic("orders", 1)


def test_an_address_is_needed() -> None:
    """An empty text names no nameserver."""
    with pytest.raises(InvalidUse):
        AdminClient(" ; ")


@pytest.mark.parametrize("queues", [0, -1, 1.5, "8", True, None, float("inf")])
async def test_queues_are_whole_numbers(queues: Any) -> None:
    """What is none is refused by name, whether somebody answers or not."""
    async with AdminClient("127.0.0.1:1") as admin:
        with pytest.raises(InvalidUse, match="queues"):
            await admin.create_topic("orders", queues=queues)
