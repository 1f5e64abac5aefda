"""What a start finds of transactions, whatever ended the process before."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.features.transactions import (
    COMMIT,
    HALF,
    OP,
    ROLLBACK,
    begin,
    bodies,
    end,
    half_command,
    producer_beat,
    records,
    transactions,
)
from support.raw_peer import RawPeer
from support.servers.brokers import running_broker
from support.waiting import until

from aerobee.broker.writing.stamps import Stamp
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.storage.recovery.walk import records_over

FAR = {"transactionTimeOut": "60000"}
SOON = {"transactionTimeOut": "50", "transactionCheckInterval": "100"}
GROUP = "CID_RMQ_SYS_TRANS"


def killed(tmp_path: Path, name: str = "after") -> Path:
    """Copy the store of a broker that runs: what the next process finds if this one is killed."""
    shutil.copytree(tmp_path / "store", tmp_path / name / "store")
    return tmp_path / name


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
async def test_open_halves_survive(tmp_path: Path, clean: bool) -> None:
    """With their checks counted; what was over stays over."""
    async with (
        running_broker(tmp_path, **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        done = await begin(peer, b"done")
        half = await begin(peer, b"open")
        gone = await begin(peer, b"gone")
        assert (await end(peer, done, COMMIT))[0] == (await end(peer, gone, ROLLBACK))[0] == 0
        folder = tmp_path if clean else killed(tmp_path)
    text = (folder / "store" / "config" / "transactionMetrics").read_text() if clean else ""
    assert not clean or msgspec.json.decode(text)["transactionCount"]["T"]["count"] == 1
    async with (
        running_broker(folder, **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        (found,) = transactions(broker).halves
        assert (found.key.unique_key, found.offset) == (half["transactionId"], 1)
        assert (await end(peer, done, COMMIT))[0] == 1
        assert (await end(peer, gone, COMMIT))[0] == 1
        again = await begin(peer, b"open")
        assert again["queueOffset"] == half["queueOffset"], "a retry over the restart"
        assert await end(peer, half, COMMIT) == (0, "")
        assert bodies(broker) == [b"done", b"open"]
        if clean:
            offsets = broker.context.tables.offsets
            assert offsets.committed(GROUP, HALF, 0) == 1


async def test_a_commit_whose_op_message_is_missing_is_not_made_again(tmp_path: Path) -> None:
    """Killed between the two, or the other broker's memory: the log knows, and gets its op."""
    async with (
        running_broker(tmp_path, **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        before, half = await begin(peer, b"before"), await begin(peer, b"hello")
        feature = transactions(broker)
        feature._ops.write = lambda: None  # type: ignore[method-assign]
        assert await end(peer, half, COMMIT) == (0, "")
        assert records(broker, OP) == []
        folder = killed(tmp_path)
        feature._ops.pending.clear()
    async with (
        running_broker(folder, **SOON) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert transactions(broker).found.committed == 1
        await until(lambda: bool(records(broker, OP)), what="its op message")
        assert records(broker, OP)[0].body == b"1,"
        assert await end(peer, half, COMMIT) == (0, "")
        assert await end(peer, before, COMMIT) == (0, "")
        assert bodies(broker) == [b"hello", b"before"]


async def test_a_copy_whose_record_before_is_not_over_is_one_half(tmp_path: Path) -> None:
    """Of several records of a transaction the last one is open."""
    async with (
        running_broker(tmp_path, **SOON) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        feature = transactions(broker)
        feature._ops.write = lambda: None  # type: ignore[method-assign]
        half = await begin(peer)
        await until(lambda: len(records(broker, HALF)) == 3, what="two checks")
        folder = killed(tmp_path)
    async with (
        running_broker(folder, **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        (found,) = transactions(broker).halves
        assert (found.offset, found.checks) == (2, 2)
        await until(lambda: bool(records(broker, OP)), what="their op message")
        assert [op.body for op in records(broker, OP)] == [b"0,1,"]
        assert await end(peer, half, COMMIT) == (0, "")
        assert bodies(broker) == [b"hello"]


async def test_progress_waits_for_the_disk(tmp_path: Path) -> None:
    """A power cut may take the END: then its half has to be open, and is asked about."""
    options = FAR | {"flushIntervalCommitLog": "600000"}
    async with (
        running_broker(tmp_path, **options) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        half = await begin(peer)
        assert await end(peer, half, ROLLBACK) == (0, "")
        progress, offsets = transactions(broker)._progress, broker.context.tables.offsets
        progress.settle()
        assert offsets.committed(GROUP, HALF, 0) is None
        assert broker.store.flusher.flush_all(10)
        progress.settle()
        assert offsets.committed(GROUP, HALF, 0) == 1


async def test_a_broker_without_transactions_says_what_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It refuses new ones; what is open stays, and is there when it has them again."""
    async with (
        running_broker(tmp_path, **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        half = await begin(peer)
    async with (
        running_broker(tmp_path, transactionEnable="false") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert "half_messages_stay" in caplog.text
        refused = await peer.request(half_command(b"new"))
        assert refused.code == ResponseCode.NO_PERMISSION
        code, _ = await end(peer, half, COMMIT)
        assert code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    async with (
        running_broker(tmp_path, **SOON) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert (await peer.request(producer_beat())).code == 0
        asked = await peer.read()
        assert asked.code == RequestCode.CHECK_TRANSACTION_STATE
        assert await end(peer, asked.ext, COMMIT, checked=True) == (0, "")
        assert bodies(broker) == [b"hello"]


def begins(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note from where on starts look for commits without an op message."""
    found: list[int] = []

    def spied(segments: Any, begin: int, damage: Any) -> Any:
        found.append(begin)
        return records_over(segments, begin, damage)

    monkeypatch.setattr("aerobee.broker.features.transactions.recovery.records_over", spied)
    return found


@pytest.mark.parametrize("by", ["us", "rocketmq", "garbage"])
async def test_a_start_looks_for_commits_where_some_may_lack_an_op_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """Nowhere after a clean stop of ours, whatever is in the log behind the oldest open half."""
    looked_from = begins(monkeypatch)
    async with (
        running_broker(tmp_path, **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        half = await begin(peer, b"open")
        for number in range(50):
            ended = await begin(peer, b"m%d" % number)
            assert await end(peer, ended, COMMIT) == (0, "")
        log = broker.store.commit_log
        log_end = log.position
    path = tmp_path / "store" / "config" / "transactionMetrics"
    table = msgspec.json.decode(path.read_bytes())
    assert table["endedBefore"] == log_end
    if by == "rocketmq":
        del table["endedBefore"]
        path.write_bytes(msgspec.json.encode(table))
    elif by == "garbage":
        path.write_bytes(msgspec.json.encode(table | {"endedBefore": 1 << 60}))
    async with (
        running_broker(tmp_path, **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert looked_from == [log_end if by == "us" else int(half["msgId"][-16:], 16)]
        assert await end(peer, half, COMMIT) == (0, "")
        assert len(bodies(broker)) == 51


async def test_what_is_pending_keeps_a_start_looking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where op messages could not be written up to the stop."""
    looked_from = begins(monkeypatch)
    async with (
        running_broker(tmp_path, **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await begin(peer, b"open")
        half = await begin(peer, b"hello")
        feature = transactions(broker)
        feature._ops.write = lambda: 1.0  # type: ignore[method-assign]
        assert await end(peer, half, COMMIT) == (0, "")
        (record,) = records(broker, "T")
    async with running_broker(tmp_path, **FAR) as broker:
        assert looked_from[0] <= record.position
        assert transactions(broker).found.committed == 1
        assert len(transactions(broker).halves) == 1


async def test_a_copy_that_rocketmq_made_of_what_it_had_committed_is_over(tmp_path: Path) -> None:
    """It writes the op message seconds later, and of the first record alone."""
    async with (
        running_broker(tmp_path, **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        half = await begin(peer)
        assert await end(peer, half, COMMIT) == (0, "")
        (first,) = records(broker, HALF)
        writing = broker.context.writing
        stamp = Stamp(writing.store_host, writing.store_host).at(wall_clock_ms())
        text = first.properties + b"TRANSACTION_CHECK_TIMES\x011\x02"
        queue = writing.queues.get(HALF, 0)
        message = (0, first.body, text, 0)
        writing.appender.append(queue, 0, first.born_timestamp, stamp, [message])
        writing.tick.commit_log()
        other = await begin(peer, b"other")
        assert other["queueOffset"] == "2"
        folder = killed(tmp_path)
    async with running_broker(folder, **FAR) as broker:
        found = transactions(broker)
        assert [each.key.unique_key for each in found.halves] == [other["transactionId"]]
        assert (found.found.committed, found.found.over) == (1, [1])
        assert bodies(broker) == [b"hello"]


async def test_one_that_stays_open_costs_no_memory_of_the_others(tmp_path: Path) -> None:
    """What op messages name is remembered in a few words, and forgotten when it is over."""
    async with (
        running_broker(tmp_path, **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        ops, halves = transactions(broker)._ops, transactions(broker).halves
        first = await begin(peer, b"open")
        second = await begin(peer, b"younger")
        for number in range(30):
            ended = await begin(peer, b"m%d" % number)
            assert await end(peer, ended, COMMIT) == (0, "")
        assert len(records(broker, OP)) == 30
        assert list(ops.written) == [(0, 31)]
        assert (ops.forget(0), ops.forget(31)) == (0, 0)
        assert halves.oldest_offset(99) == 0
        oldest_ms = halves.oldest_ms()
    async with (
        running_broker(tmp_path, **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        ops, halves = transactions(broker)._ops, transactions(broker).halves
        found_ms = halves.oldest_ms()
        assert oldest_ms is not None and found_ms is not None
        assert abs(found_ms - oldest_ms) < 1000
        assert await end(peer, first, ROLLBACK) == (0, "")
        assert halves.oldest_offset(99) == 1
        assert await end(peer, second, ROLLBACK) == (0, "")
        assert halves.oldest_offset(99) == 99
        assert halves.oldest_ms() is None
        assert ops.forget(32) == ops.end == 32


@pytest.mark.parametrize("topic", ["rmq_sys_wheel_timer", HALF, "SCHEDULE_TOPIC_XXXX"])
async def test_a_half_for_a_topic_of_the_broker_s_own_is_not_committed(
    tmp_path: Path, topic: str
) -> None:
    """RocketMQ takes one for the timers, which its commit stops for good."""
    async with (
        running_broker(tmp_path, **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        half = await begin(peer)
        (first,) = records(broker, HALF)
        writing = broker.context.writing
        stamp = Stamp(writing.store_host, writing.store_host).at(wall_clock_ms())
        text = first.properties.replace(
            b"REAL_TOPIC\x01T\x02", b"REAL_TOPIC\x01%b\x02" % topic.encode()
        )
        queue = writing.queues.get(HALF, 0)
        message = (0, first.body, text, 0)
        writing.appender.append(queue, 0, first.born_timestamp, stamp, [message])
        writing.tick.commit_log()
        assert await end(peer, half, ROLLBACK) == (0, "")
        position = records(broker, HALF)[1].position
        folder = killed(tmp_path)
    async with (
        running_broker(folder, **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        count = len(records(broker, topic))
        named = {"msgId": f"{position:032X}", "queueOffset": "1"}
        code, remark = await end(peer, named, COMMIT, topic=topic)
        assert (code, remark) == (ResponseCode.MESSAGE_ILLEGAL, f"its own topic is {topic}")
        assert len(records(broker, topic)) == count
