"""Health, metrics and JSON over HTTP."""

import asyncio
import itertools
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from itertools import chain
from pathlib import Path
from typing import cast

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from support.members import RawMember
from support.servers.live_broker import LiveBroker, fill, live_broker
from support.waiting import until

from aerobee.broker.features.http import exposition, views
from aerobee.broker.measures.names import BARE, HELP
from aerobee.broker.measures.values import ROWS_PER_TURN, Values
from aerobee.broker.rules.attributes import DEDUP_SECONDS
from aerobee.broker.start.context import Context
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.net.connection import Connection
from aerobee.storage.queues.consume_queue import ConsumeQueue

GROUPS = 600


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveBroker]:
    """A broker with HTTP on a free port, two messages, a group that consumed one of them."""
    async with live_broker(tmp_path, http_port=0) as broker:
        await until(lambda: broker.broker.http_port, what="HTTP to be served")
        await fill(broker, b"x" * 100)
        yield broker


async def test_health_and_readiness(live: LiveBroker) -> None:
    """Alive is not ready: a broker that cannot write says so, and why."""
    assert await live.get("/healthz") == (200, "ok\n")
    assert await live.get("/readyz") == (200, "ready\n")
    live.broker.store.commit_log.refuse("the disk is full")
    status, text = await live.get("/readyz")
    assert status == 503 and "store not writable: the disk is full" in text
    assert (await live.get("/healthz"))[0] == 200


async def test_who_asks_for_nothing_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a first request, within one, and after it: descriptors are for those who ask."""
    monkeypatch.setattr(views, "IDLE_S", 0.3)
    async with live_broker(tmp_path, http_port=0) as live:
        await until(lambda: live.broker.http_port, what="HTTP to be served")
        for said in (b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", live.broker.http_port)
            writer.write(said)
            async with asyncio.timeout(30):
                answer = await reader.read()
            assert answer.endswith(b"ok\n") or not said.endswith(b"\n")
            writer.close()


async def test_an_unregistered_broker_is_not_ready(tmp_path: Path) -> None:
    """Nobody can find it."""
    async with live_broker(tmp_path, http_port=0, namesrv_addr="127.0.0.1:1") as live:
        await until(lambda: live.broker.http_port, what="HTTP to be served")
        assert await live.get("/readyz") == (503, "not registered with any nameserver\n")


async def test_metrics_have_rocketmqs_names(live: LiveBroker) -> None:
    """Prometheus text with the names and labels of RocketMQ's exporter, and true numbers."""
    status, text = await live.get("/metrics")
    assert status == 200
    found = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
    rooms = set().union(*(room.metric_help for room in live.broker.rooms))
    assert set(found) <= set(HELP) | rooms | set(BARE)
    common = 'cluster="DefaultCluster",{}node_id="broker-a",node_type="broker"'
    arrived = common.format('is_system="false",message_type="normal",') + ',topic="t"'
    assert f"rocketmq_messages_in_total{{{arrived}}} 2.0" in text
    lag = 'cluster="DefaultCluster",consumer_group="g",is_retry="false",is_system="false"'
    assert re.search(rf"rocketmq_consumer_lag_messages\{{{lag}.*topic=\"t\"\}} 1.0", text)
    for name in (
        "rocketmq_broker_permission", "rocketmq_topic_number", "rocketmq_consumer_group_number",
        "rocketmq_throughput_in_total", "rocketmq_producer_connections",
        "rocketmq_consumer_connections", "rocketmq_consumer_lag_latency_milliseconds",
        "rocketmq_storage_size_bytes", "rocketmq_storage_flush_behind_bytes",
        "rocketmq_storage_message_reserve_time_milliseconds", "rocketmq_processor_watermark",
        "aerobee_fsyncs_total",
    ):  # fmt: skip
        assert found[name] == HELP[name]
    for short, name in BARE.items():
        assert found[short] == f"The same as {name}"
        told, again = (
            re.findall(rf"^{each}(\{{.*)$", text, re.MULTILINE) for each in (name, short)
        )
        assert told == again


async def test_what_changes_during_a_scrape_does_not_end_it(live: LiveBroker) -> None:
    """Rows are read in small turns of the loop; a hand-over between two of them is nothing new."""
    handovers = live.broker.context.consumers.handovers
    reasons = itertools.count()

    async def hand_over() -> None:
        while True:
            handovers.given[f"reason {next(reasons)}"] += 1
            await asyncio.sleep(0)

    for _ in range(500):
        handovers.given[f"reason {next(reasons)}"] += 1
    changes = asyncio.create_task(hand_over())
    try:
        assert b"aerobee_queue_handovers_total" in await exposition.text(
            live.broker.context, bare=True
        )
    finally:
        changes.cancel()


async def test_members_that_come_during_a_scrape_do_not_end_it(live: LiveBroker) -> None:
    """A group of hundreds is read in several turns of the loop, too."""
    group = next(live.broker.context.consumers.members.groups())
    member = next(iter(group.members.values()))
    guests: list[Connection] = []

    async def come() -> None:
        while True:
            guests.append(cast(Connection, object()))
            group.members[guests[-1]] = member
            await asyncio.sleep(0)

    for _ in range(500):
        guests.append(cast(Connection, object()))
        group.members[guests[-1]] = member
    changes = asyncio.create_task(come())
    try:
        assert b"rocketmq_consumer_connections" in await exposition.text(
            live.broker.context, bare=True
        )
    finally:
        changes.cancel()
        for guest in guests:
            del group.members[guest]


async def test_scrapes_come_one_after_the_other(
    live: LiveBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Together they would take the memory, and the threads, of all of them."""
    under_way, most = 0, 0
    text = exposition.text

    async def counted(context: Context, *, bare: bool) -> bytes:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            return await text(context, bare=bare)
        finally:
            under_way -= 1

    monkeypatch.setattr(exposition, "text", counted)
    replies = await asyncio.gather(*(live.get("/metrics") for _ in range(4)))
    assert [status for status, _ in replies] == [200] * 4
    assert most == 1


async def test_who_does_not_wait_for_a_scrape_costs_none(
    live: LiveBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A monitor that gives up asks again, while the first scrape is still made."""
    asked: list[asyncio.Event] = []

    async def held(context: Context, *, bare: bool) -> bytes:
        asked.append(asyncio.Event())
        await asked[-1].wait()
        return b""

    monkeypatch.setattr(exposition, "text", held)
    first = asyncio.create_task(live.get("/metrics"))
    await until(lambda: asked)
    _, writer = await asyncio.open_connection("127.0.0.1", live.broker.http_port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n")
    await live.get("/healthz")  # by now the other one is read
    writer.close()
    await writer.wait_closed()
    await live.get("/healthz")
    asked[0].set()
    assert (await first)[0] == 200
    last = asyncio.create_task(live.get("/metrics"))
    await until(lambda: len(asked) == 2)
    asked[1].set()
    assert (await last)[0] == 200
    assert len(asked) == 2


async def test_a_scrape_does_not_count_itself(live: LiveBroker) -> None:
    """Counters are read before the disk is, for the age of what is not consumed."""
    begun = live.broker.context.cold.reads.begun
    text = (await exposition.text(live.broker.context, bare=True)).decode()
    found = re.search(r"^aerobee_cold_reads_total{.*} (\S+)$", text, re.MULTILINE)
    assert found is not None and float(found[1]) == begun


async def test_topics_as_json(live: LiveBroker) -> None:
    """Every queue with its offsets, and who consumes."""
    _, text = await live.get("/api/topics/t")
    topic = json.loads(text)
    assert topic["queues"][0] == {"queueId": 0, "minOffset": 0, "maxOffset": 2}
    assert len(topic["queues"]) == topic["readQueues"] == 4
    assert topic["groups"] == ["g"]
    _, text = await live.get("/api/topics")
    assert {"t", "TBW102", "%RETRY%g"} <= {each["name"] for each in json.loads(text)}
    assert (await live.get("/api/topics/unknown"))[0] == 404


async def test_groups_as_json(live: LiveBroker) -> None:
    """Members with their addresses, subscriptions, and the lag by queue."""
    _, text = await live.get("/api/groups/g")
    group = json.loads(text)
    assert group["members"][0]["clientId"] == "c1"
    assert group["subscriptions"]["t"]["expression"] == "a || b"
    assert group["topics"] == [
        {
            "topic": "t",
            "lag": 1,
            "queues": [{"queueId": 0, "committed": 1, "maxOffset": 2, "lag": 1, "owner": None}],
        }
    ]
    _, text = await live.get("/api/groups")
    assert {
        "name": "g",
        "consumeEnable": True,
        "members": 1,
        "subscriptionsDiffer": False,
    } in json.loads(text)
    assert (await live.get("/api/groups/unknown"))[0] == 404


async def test_members_that_differ_and_owners_are_shown(live: LiveBroker) -> None:
    """Who wants what, who has which queue, and how often queues changed hands."""
    async with RawMember(live.broker.port, "c2", group="g") as member:
        await member.beat("t")
        await member.start_of(0, "t")
        _, text = await live.get("/api/groups/g")
        group = json.loads(text)
        assert group["differences"] == {"t": {"TAG 'a || b'": ["c1"], "TAG '*'": ["c2"]}}
        assert group["topics"][0]["queues"][0]["owner"] == "c2"
        groups = json.loads((await live.get("/api/groups"))[1])
        assert [each["name"] for each in groups if each["subscriptionsDiffer"]] == ["g"]
        live.broker.context.consumers.handovers.given["let go"] += 1
        _, text = await live.get("/metrics")
        for value in (
            "aerobee_differing_groups{ 1.0",
            "aerobee_differing_groups_total{ 1.0",
            "aerobee_owned_queues{ 1.0",
            "aerobee_held_offset_requests{ 0.0",
            "aerobee_ignored_commits_total{ 0.0",
            'aerobee_queue_handovers_total{,reason="let_go" 1.0',
        ):
            name, _, rest = value.partition("{")
            label, _, number = rest.rpartition(" ")
            assert re.search(rf"^{name}\{{[^}}]*{label}\}} {number}$", text, re.MULTILINE), name


async def test_lists_come_in_pages(live: LiveBroker) -> None:
    """A start and a limit; anything else is a bad request."""
    _, text = await live.get("/api/topics")
    names = [each["name"] for each in json.loads(text)]
    _, text = await live.get("/api/topics?start=1&limit=2")
    assert [each["name"] for each in json.loads(text)] == names[1:3]
    _, text = await live.get("/api/groups?start=100000")
    assert json.loads(text) == []
    for query in ("limit=0", "limit=10001", "start=-1", "start=x", "limit=" + "9" * 5000):
        status, text = await live.get(f"/api/groups?{query}")
        assert status == 400, query


async def test_the_broker_as_json(live: LiveBroker) -> None:
    """Who it is and what its store holds."""
    _, text = await live.get("/api/broker")
    broker = json.loads(text)
    assert broker["address"] == live.address and broker["ready"] is True
    assert broker["store"]["position"] > 200 and broker["store"]["writable"] is True
    assert (await live.get("/nothing"))[0] == 404


async def test_a_taken_port_does_not_stop_the_broker(tmp_path: Path, live: LiveBroker) -> None:
    """Messages matter more than their metrics: it is logged and the broker serves."""
    async with live_broker(tmp_path / "second", http_port=live.broker.http_port) as second:
        reply = await second.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        assert reply.code == 0
        assert second.broker.http_port is None


async def test_a_scrape_of_many_groups_lets_others_have_their_turns(
    live: LiveBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything that there is one of by group is read in small turns; each name is told once."""
    tables = live.broker.context.tables
    for number in range(GROUPS):
        tables.groups.find(f"g{number}")
        tables.offsets.commit(f"g{number}", "t", 0, 1)
    turn = 0
    looked_at: Counter[int] = Counter()  # queues, by turn
    find_queue = live.broker.store.find_queue

    def noted(topic: str, queue_id: int) -> ConsumeQueue | None:
        looked_at[turn] += 1
        return find_queue(topic, queue_id)

    async def serve() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(live.broker.store, "find_queue", noted)
    others = asyncio.create_task(serve())
    text = (await exposition.text(live.broker.context, bare=True)).decode()
    others.cancel()
    assert looked_at.total() >= 2 * GROUPS  # for what is not consumed, and for the lag
    assert max(looked_at.values()) < 2 * ROWS_PER_TURN
    rows = [row for row in text.splitlines() if row.startswith("rocketmq_consumer_lag_messages{")]
    assert len(rows) == len(set(rows)) >= GROUPS > exposition.ROWS_PER_PIECE
    assert text.count("# TYPE rocketmq_consumer_lag_messages gauge") == 1
    assert text.count("# HELP rocketmq_consumer_lag_messages ") == 1


def test_no_more_than_a_piece_of_the_text_is_made_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Objects of all rows together would be searched for garbage in one go."""
    values = Values({"node": "n"}, {"a_total": "A", "b": "B"})
    for number in range(2 * exposition.ROWS_PER_PIECE + 1):
        values.add("a_total", number, topic=f"t{number}")
        values.add("b", number, **({"topic": "t"} if number else {}))
    lengths: list[int] = []
    written = generate_latest

    def noted(registry: CollectorRegistry) -> bytes:
        text = written(registry)
        lengths.append(len(text.splitlines()))
        return text

    monkeypatch.setattr(exposition, "generate_latest", noted)
    text = exposition.write(values, bare=False)
    assert max(lengths) == exposition.ROWS_PER_PIECE + exposition.HEADER_LINES
    read = {family.name: family for family in text_string_to_metric_families(text.decode())}
    assert set(read) == {"a", "b"}
    for family in read.values():
        assert len(family.samples) == 2 * exposition.ROWS_PER_PIECE + 1
        assert [sample.value for sample in family.samples] == list(range(len(family.samples)))
        assert all(set(sample.labels) == {"node", "topic"} for sample in family.samples)


async def test_a_topic_may_go_between_two_values_of_it(live: LiveBroker) -> None:
    """A turn of the loop ends after a hundred rows, not after those of a topic."""
    topics = live.broker.context.tables.topics
    for number in range(3):
        topics.update(TopicConfig(topic_name=f"t{number}"), {"+" + DEDUP_SECONDS: "60"})
    for name in ("aerobee_dedup_topic_keys", "aerobee_dedup_window_seconds"):
        samples = chain.from_iterable(room.samples() for room in live.broker.rooms)
        begun = next(sample for sample in samples if sample.name == name)
        topics.delete(begun.labels["topic"])
        assert "aerobee_dedup_duplicates_total" in {sample.name for sample in samples}


async def test_what_a_room_has_of_many_topics_is_read_in_turns(
    live: LiveBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics that store retries once come and go while they are told of."""
    tables = live.broker.context.tables
    for number in range(3 * ROWS_PER_TURN):
        tables.topics.update(TopicConfig(topic_name=f"t{number}"), {"+" + DEDUP_SECONDS: "60"})
    told: list[str] = []
    begun = asyncio.Event()
    add = Values.add

    def noted(taken: Values, name: str, value: float, **labels: str) -> None:
        add(taken, name, value, **labels)
        if name == "aerobee_dedup_window_seconds":
            told.append(labels["topic"])
            begun.set()

    async def change() -> None:
        await begun.wait()
        tables.topics.delete("t299")
        tables.topics.update(TopicConfig(topic_name="new"), {"+" + DEDUP_SECONDS: "60"})

    monkeypatch.setattr(Values, "add", noted)
    change_under_way = asyncio.create_task(change())
    await exposition.text(live.broker.context, bare=True)
    await change_under_way
    assert told == [f"t{number}" for number in range(299)]
