"""`aerobee group` and `aerobee offset` over a group with a member, and without."""

import asyncio
from collections.abc import Iterator

import pytest
from support.servers.commands import Commands
from support.waiting import until

from aerobee.client import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage
from aerobee.testing import ClusterThread

TOPIC, GROUP = "cli-group-orders", "cli-billing"


@pytest.fixture(scope="module")
def consumed(rocketmq: ClusterThread) -> Iterator[ClusterThread]:
    """A topic of two queues with ten messages, of which a group has consumed all."""
    rocketmq.create_topic(TOPIC, queues=2)
    rocketmq.call(produce(rocketmq, 10))
    rocketmq.call(consume(rocketmq, 10))
    yield rocketmq


async def produce(cluster: ClusterThread, count: int) -> None:
    """Send messages by turns to both queues."""
    async with Producer("cli-test", namesrv=cluster.namesrv_addr) as producer:
        queues = await producer.fetch_queues(TOPIC)
        for number in range(count):
            await producer.send(Message(TOPIC, b"%d" % number), queue=queues[number % 2])


async def consume(cluster: ClusterThread, count: int) -> None:
    """Consume so many messages as a member, and leave."""
    done = asyncio.Event()
    seen = 0

    async def handle(message: ReceivedMessage) -> None:
        nonlocal seen
        seen += 1
        if seen == count:
            done.set()

    consumer = PushConsumer(GROUP, namesrv=cluster.namesrv_addr, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe(TOPIC, handle)
    async with consumer:
        await asyncio.wait_for(done.wait(), 20)


def lag(commands: Commands) -> dict[int, int]:
    """Return the lag of each queue of the topic."""
    rows = commands.json("group", "describe", GROUP)
    return {row["queue"]: row["lag"] for row in rows if row["topic"] == TOPIC}


def test_lag_is_told_by_queue_and_by_topic(consumed: ClusterThread, commands: Commands) -> None:
    """What was sent since the group left is what it is behind."""
    commands("offset", "reset", GROUP, TOPIC, "--to-end", "--yes")
    assert lag(commands) == {0: 0, 1: 0}
    consumed.call(produce(consumed, 3))
    assert lag(commands) == {0: 2, 1: 1}
    totals = commands.json("group", "describe", GROUP, "--total")
    assert {key: value for key, value in totals[0].items() if key != "consumed_until"} == {
        "topic": TOPIC,
        "lag": 3,
    } or TOPIC in {row["topic"] for row in totals}
    drawn = commands("group", "describe", GROUP, "-o", "table").stdout
    assert "3 messages behind, 0 members" in drawn
    assert [GROUP, "broker-a", "yes", "no", "16"] in commands.table("group", "list")


def test_a_reset_is_shown_before_it_is_done(consumed: ClusterThread, commands: Commands) -> None:
    """--dry-run changes nothing; the plan says how many messages come again, or never."""
    commands("offset", "reset", GROUP, TOPIC, "--to-end", "--yes")
    before = lag(commands)
    words = ("offset", "reset", GROUP, TOPIC)
    plan = commands.json(*words, "--to-begin", "--dry-run")
    assert {row["queue"]: row["after"] for row in plan} == {0: 0, 1: 0}
    assert all(row["again"] == row["before"] == row["end"] for row in plan)
    assert lag(commands) == before
    refused = commands(*words, "--to-begin", code=2)
    assert "Say --yes" in refused.stderr
    commands(*words, "--to-offset", "2", "-q", "1", "--yes")
    ends = {row["queue"]: row["end"] for row in plan}
    assert lag(commands) == {0: 0, 1: ends[1] - 2}
    commands(*words, "--to-time", "1h", "--yes")
    assert lag(commands) == ends
    commands(*words, "--to-offset", "999999", "--yes")  # cut to what there is
    assert lag(commands) == {0: 0, 1: 0}


def test_a_member_is_shown_with_its_queues_and_told_of_a_reset(
    consumed: ClusterThread, commands: Commands
) -> None:
    """The owner of each queue is known, and a connected member consumes again."""
    commands("offset", "reset", GROUP, TOPIC, "--to-end", "--yes")
    count = sum(row["messages"] for row in commands.json("topic", "describe", TOPIC))

    async def consume_again() -> None:
        seen: list[ReceivedMessage] = []
        consumer = PushConsumer(GROUP, namesrv=consumed.namesrv_addr)

        async def handle(message: ReceivedMessage) -> None:
            seen.append(message)

        consumer.subscribe(TOPIC, handle)
        async with consumer:
            shown: dict[str, int] = {}
            async with asyncio.timeout(20):
                while shown != {consumer.client_id: 3}:  # with that of its retries
                    rows = await asyncio.to_thread(commands.json, "group", "members", GROUP)
                    shown = {row["client_id"]: row["queues"] for row in rows}
                described = await asyncio.to_thread(commands.json, "group", "describe", GROUP)
                assert {row["owner"] for row in described if row["topic"] == TOPIC} == {
                    consumer.client_id
                }
                refused = await asyncio.to_thread(
                    lambda: commands("group", "delete", GROUP, "--yes", code=2)
                )
                assert "stop them first" in refused.stderr
                words = ("offset", "reset", GROUP, TOPIC, "--to-begin", "--yes")
                await asyncio.to_thread(lambda: commands(*words))
                await until(lambda: len(seen) >= count)

    consumed.call(consume_again())


def test_a_group_that_nobody_has(consumed: ClusterThread, commands: Commands) -> None:
    """It is an error of the call, and says what to look at."""
    for words in (
        ("group", "describe", "never-seen"),
        ("group", "members", "never-seen"),
        ("message", "peek", TOPIC, "never-seen"),
        ("offset", "reset", "never-seen", TOPIC, "--to-end", "--yes"),
    ):
        refused = commands(*words, code=2)
        assert "no group 'never-seen' on broker-a; `aerobee group list`" in refused.stderr
    refused = commands("offset", "reset", GROUP, "never-made", "--to-end", "--yes", code=2)
    assert "no topic 'never-made'" in refused.stderr
    refused = commands("offset", "reset", GROUP, TOPIC, "--to-end", "--to-begin", code=2)
    assert "give one of --to-time" in refused.stderr
    refused = commands("offset", "reset", GROUP, TOPIC, "--to-end", "-q", "7", code=2)
    assert "has no queue 7" in refused.stderr


def test_a_group_is_made_and_deleted(commands: Commands) -> None:
    """Deleted it is gone with its offsets; a second time does no harm."""
    commands("group", "create", "cli-short-lived", "--retries", "3", "--ordered")
    rows = commands.json("group", "list", "--like", "cli-short")
    assert rows == [
        {"group": "cli-short-lived", "brokers": "broker-a", "may_consume": True, "ordered": True,
         "retries": 3}
    ]  # fmt: skip
    altered = commands("group", "alter", "cli-short-lived", "--retries", "4", "--disabled")
    assert altered.stdout == (
        "broker-a: in order, 3 retries -> in order, 4 retries, may not consume\n"
    )
    (wrong,) = [row for row in commands.json("doctor", "--group", "cli-short-lived", code=1)
                if row["state"] == "error"]  # fmt: skip
    assert "may not consume" in wrong["what"] and "--enabled" in wrong["do"]
    again = commands("group", "alter", "cli-short-lived", "--enabled", "--unordered")
    assert again.stdout.endswith(" -> 4 retries\n")
    assert "`aerobee group create" in commands("group", "alter", "no-such", code=2).stderr
    commands("group", "delete", "cli-short-lived", "--yes")
    assert commands.json("group", "list", "--like", "cli-short") == []
    commands("group", "delete", "cli-short-lived", "--yes")


def test_a_group_of_another_name_goes_on_there(consumed: ClusterThread, commands: Commands) -> None:
    """Offsets are copied queue by queue, after they were shown."""
    commands("offset", "reset", GROUP, TOPIC, "--to-offset", "2", "-q", "1", "--yes")
    before = {row["queue"]: row["committed"] for row in commands.json("group", "describe", GROUP)
              if row["topic"] == TOPIC}  # fmt: skip
    commands("group", "create", "cli-billing-2")
    words = ("offset", "copy", GROUP, "cli-billing-2", TOPIC)
    plan = commands.json(*words, "--dry-run")
    assert {row["queue"]: row["after"] for row in plan} == before
    assert "Say --yes" in commands(*words, code=2).stderr
    for _ in range(2):
        commands(*words, "--yes")
        rows = commands.json("group", "describe", "cli-billing-2")
        assert {row["queue"]: row["committed"] for row in rows} == before
    refused = commands("offset", "copy", "cli-billing-3", GROUP, TOPIC, code=2)
    assert "no group 'cli-billing-3'" in refused.stderr
    commands("group", "create", "cli-billing-4")
    refused = commands("offset", "copy", "cli-billing-4", GROUP, TOPIC, code=2)
    assert "has committed nothing" in refused.stderr


def test_who_sends_and_where_threads_are(consumed: ClusterThread, commands: Commands) -> None:
    """Producers with their addresses; a member tells of its tasks; one that is gone is told."""

    async def look() -> None:
        async def handle(message: ReceivedMessage) -> None:
            return

        consumer = PushConsumer(GROUP, namesrv=consumed.namesrv_addr)
        consumer.subscribe(TOPIC, handle)
        async with Producer("cli-shop", namesrv=consumed.namesrv_addr) as producer, consumer:
            await producer.send(Message(TOPIC, b"x"))
            async with asyncio.timeout(20):
                rows: list[dict[str, str]] = []
                while not rows:
                    words = ("group", "producers", "--like", "cli-shop")
                    rows = await asyncio.to_thread(commands.json, *words)
                shown: list[dict[str, str]] = []
                while not shown:
                    shown = await asyncio.to_thread(commands.json, "group", "members", GROUP)
            assert rows[0]["broker"] == "broker-a"
            words = ("group", "threads", GROUP, consumer.client_id)
            pairs = await asyncio.to_thread(commands.json, *words)
            assert "jstack" in {row["key"] for row in pairs}
            await asyncio.to_thread(lambda: commands(*words))

    consumed.call(look())
    refused = commands("group", "threads", GROUP, "nobody@1", code=2)
    assert "no member 'nobody@1'" in refused.stderr
