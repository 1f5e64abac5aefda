"""Topics over several brokers: page by page, and with a broker that is away."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aerobee.admin import AdminClient, pages
from aerobee.admin.topics import TopicSettings, is_own_topic
from aerobee.client.errors import InvalidUse
from aerobee.remoting.bodies import TopicConfig
from aerobee.testing import EmbeddedCluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    """A nameserver and two brokers."""
    async with EmbeddedCluster(brokers=2, root=tmp_path) as running:
        yield running


async def test_a_table_is_read_page_by_page(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No topic is left out, or doubled, at the border of two pages."""
    monkeypatch.setattr(pages, "PAGE", 3)
    async with AdminClient(cluster.namesrv_addr) as admin:
        for number in range(7):
            await admin.create_topic(f"paged-{number}", 1)
        found = (await admin.topic.configs(broker="broker-a")).or_raise()["broker-a"]
    assert set(found) == {topic.topic_name for topic in cluster.brokers[0].context.tables.topics}


async def test_a_table_that_changes_is_read_anew(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that is made between two pages does not hide another."""
    monkeypatch.setattr(pages, "PAGE", 3)
    async with AdminClient(cluster.namesrv_addr) as admin:
        address = cluster.broker_addrs[0]
        original = admin.connections.request
        asked = 0

        async def changing(where: str, code: int, *more: object, **others: object) -> object:
            nonlocal asked
            reply = await original(where, code, *more, **others)  # type: ignore[arg-type]
            asked += 1
            if asked == 1:
                await admin.topic.put(address, TopicConfig(topic_name="AAA-first"))
            return reply

        monkeypatch.setattr(admin.connections, "request", changing)
        found = await pages.all_topics(admin, address)
    assert "AAA-first" in found
    assert set(found) == {topic.topic_name for topic in cluster.brokers[0].context.tables.topics}


async def test_a_broker_that_is_away_costs_only_its_own(cluster: EmbeddedCluster) -> None:
    """A listing has what the others say, and names the one."""
    async with AdminClient(cluster.namesrv_addr) as admin:
        masters = await admin.masters_of()
        await admin.topic.create("half", TopicSettings(read_queues=2, write_queues=2))
        await cluster.brokers[1].stop()
        answers = await admin.each(masters, lambda each: pages.all_topics(admin, each))
        assert "half" in answers.found["broker-a"]
        assert set(answers.failed) == {"broker-b"}
        with pytest.raises(type(answers.failed["broker-b"])):
            answers.or_raise()


async def test_a_topic_is_altered_where_it_is(cluster: EmbeddedCluster) -> None:
    """Brokers that have it keep what was not named; the others do not get it."""
    async with AdminClient(cluster.namesrv_addr) as admin:
        wanted = TopicSettings(read_queues=4, write_queues=4, attributes={"message.type": "FIFO"})
        await admin.topic.create("one-sided", wanted, broker="broker-b")
        changed = await admin.topic.alter("one-sided", TopicSettings(read_queues=6))
        assert list(changed) == ["broker-b"]
        (config,) = (await admin.topic.describe("one-sided")).configs.values()
        assert (config.read_queue_nums, config.write_queue_nums) == (6, 4)
        assert config.attributes == {"message.type": "FIFO"}
        with pytest.raises(InvalidUse, match="broker-b has a topic"):
            await admin.topic.create("one-sided", wanted)


@pytest.mark.parametrize(
    ("topic", "own"),
    [
        ("orders", False),
        ("%RETRY%billing", True),
        ("%DLQ%billing", True),
        ("TBW102", True),
        ("rmq_sys_wheel_timer", True),
        ("broker-a", True),
        ("DefaultCluster_REPLY_TOPIC", True),
        ("my_REPLY_TOPIC", False),
    ],
)
def test_topics_that_brokers_made(topic: str, own: bool) -> None:
    """They are told apart by their names."""
    assert is_own_topic(topic, frozenset({"broker-a", "DefaultCluster"})) is own


async def test_ten_thousand_topics_are_a_few_questions(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing asks by pages, not by topics."""
    table = cluster.brokers[0].context.tables.topics
    for number in range(10_000):
        table.update(TopicConfig(topic_name=f"many-{number}", read_queue_nums=1), {})
    async with AdminClient(cluster.namesrv_addr) as admin:
        asked: list[int] = []
        original = admin.connections.request

        async def counting(where: str, code: int, *more: object, **others: object) -> object:
            asked.append(code)
            return await original(where, code, *more, **others)  # type: ignore[arg-type]

        monkeypatch.setattr(admin.connections, "request", counting)
        found = (await admin.topic.configs(broker="broker-a")).or_raise()["broker-a"]
    assert sum(name.startswith("many-") for name in found) == 10_000
    assert len(asked) == 7  # who the brokers are, and six pages
