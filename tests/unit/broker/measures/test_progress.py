"""How far groups are behind, as their metrics have it."""

from pathlib import Path

from support.servers.live_broker import LiveBroker, fill, live_broker

from aerobee.broker.measures.collecting import collect
from aerobee.remoting.codes import RequestCode


async def told(live: LiveBroker, name: str) -> dict[tuple[str, str], float]:
    """Return the values of a metric by topic and group."""
    values = await collect(live.broker.context)
    rows = values.rows.get(name, [])
    return {(labels["topic"], labels["consumer_group"]): value for labels, value in rows}


async def test_what_is_committed_pulled_and_neither_is_told_apart(tmp_path: Path) -> None:
    """Of five messages one is committed, two more are in hand, two nobody has pulled."""
    async with live_broker(tmp_path) as live:
        await fill(live, b"x")
        header = {"a": "p", "b": "t", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
        for _ in range(3):
            await live.ask(RequestCode.SEND_MESSAGE_V2, header, b"x")
        live.broker.context.tables.offsets.pulled("g", "t", 0, 3)
        assert await told(live, "rocketmq_consumer_lag_messages") == {("t", "g"): 4}
        assert await told(live, "rocketmq_consumer_inflight_messages") == {("t", "g"): 2}
        assert await told(live, "rocketmq_consumer_ready_messages") == {("t", "g"): 2}
        for name in ("lag", "queueing"):
            ages = await told(live, f"rocketmq_consumer_{name}_latency_milliseconds")
            assert 0 <= ages["t", "g"] < 60_000


async def test_a_group_that_left_is_behind_and_has_nothing_in_hand(tmp_path: Path) -> None:
    """An alert needs the one; the other is of members."""
    async with live_broker(tmp_path) as live:
        await fill(live, b"x")
        await live.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "c1", "consumerGroup": "g"})
        assert await told(live, "rocketmq_consumer_lag_messages") == {("t", "g"): 1}
        assert await told(live, "rocketmq_consumer_inflight_messages") == {}


async def test_what_was_deleted_is_gone(tmp_path: Path) -> None:
    """Alerts for something that is not there are the oldest complaint about RocketMQ's metrics."""
    async with live_broker(tmp_path) as live:
        await fill(live, b"x")
        await live.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g"})
        assert await told(live, "rocketmq_consumer_lag_messages") == {}
        await live.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
        values = await collect(live.broker.context)
        for name, rows in values.rows.items():
            assert not [labels for labels, _ in rows if labels.get("topic") == "t"], name


async def test_a_group_that_has_committed_nothing_is_there_with_nothing(tmp_path: Path) -> None:
    """It begins at the end, as RocketMQ tells it, too."""
    async with live_broker(tmp_path) as live:
        await fill(live, b"x")
        live.broker.context.tables.offsets.delete_group("g")
        assert await told(live, "rocketmq_consumer_lag_messages") == {("t", "g"): 0}
        assert await told(live, "rocketmq_consumer_lag_latency_milliseconds") == {("t", "g"): 0}
