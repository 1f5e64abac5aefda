"""What is asked of old messages while the disk does not answer, or answers with an error."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.disks.slow_disk import Disk
from support.raw_peer import RawPeer
from support.servers.brokers import running_broker, send_command
from support.waiting import until

from aerobee.broker.app import Broker
from aerobee.broker.features.delays.feature import Delays
from aerobee.broker.features.http import exposition
from aerobee.broker.measures import collecting
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command, next_opaque
from aerobee.remoting.frame import encode_frame


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker with three messages and a group that has read one of them."""
    async with (
        running_broker(tmp_path, messageDelayLevel="1s 2s") as running,
        await RawPeer.connect(running.port) as peer,
    ):
        for _ in range(3):
            assert (await peer.request(send_command())).code == ResponseCode.SUCCESS
        running.context.tables.groups.find("G")
        running.context.tables.offsets.commit("G", "T", 0, 1)
        yield running


def request(code: int, **fields: str) -> Command:
    """Build a request without a body."""
    return Command(code=code, ext=fields, opaque=next_opaque())


LOOKUPS = [
    request(RequestCode.VIEW_MESSAGE_BY_ID, offset="0"),
    request(
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, topic="T", queueId="0", timestamp="1718000000000"
    ),
    request(
        RequestCode.CONSUMER_SEND_MSG_BACK, offset="0", group="G", delayLevel="1", originTopic="T"
    ),
    request(RequestCode.GET_TOPIC_STATS_INFO, topic="T"),
    request(RequestCode.GET_CONSUME_STATS, consumerGroup="G", topic="T"),
    request(RequestCode.QUERY_CONSUME_TIME_SPAN, topic="T", group="G"),
    request(RequestCode.GET_EARLIEST_MSG_STORETIME, topic="T", queueId="0"),
]


@pytest.mark.parametrize("lookup", LOOKUPS, ids=lambda command: str(command.code))
async def test_a_look_up_waits_for_the_disk_and_nobody_else_does(
    broker: Broker, lookup: Command
) -> None:
    """It is answered when the disk has answered; a producer in the meantime."""
    disk = Disk(broker)
    disk.gate.clear()
    async with (
        await RawPeer.connect(broker.port) as asker,
        await RawPeer.connect(broker.port) as producer,
    ):
        await asker.send(encode_frame(lookup))
        await until(lambda: disk.reads, what="the disk is asked")
        assert (await producer.request(send_command())).code == ResponseCode.SUCCESS
        disk.gate.set()
        assert (await asker.read()).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("lookup", LOOKUPS, ids=lambda command: str(command.code))
async def test_an_error_of_the_disk_is_what_a_look_up_is_told(
    broker: Broker, lookup: Command
) -> None:
    """SYSTEM_ERROR and the disk's words, not a time that is wrong."""
    Disk(broker).error = OSError(5, "Input/output error")
    async with await RawPeer.connect(broker.port) as asker:
        reply = await asker.request(lookup)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark == "OSError: [Errno 5] Input/output error"


async def test_metrics_are_written_beside_a_slow_disk(broker: Broker) -> None:
    """How long the oldest message waits is read in a thread."""
    disk = Disk(broker)
    disk.gate.clear()
    writing = asyncio.create_task(exposition.text(broker.context))
    await until(lambda: disk.reads, what="the disk is asked")
    assert not writing.done()
    disk.gate.set()
    written = (await writing).decode()
    assert "rocketmq_consumer_lag_messages{" in written
    assert "aerobee_cold_reads_total{" in written


async def test_delayed_messages_that_left_memory_are_delivered(broker: Broker) -> None:
    """Entry and record are fetched first; nothing is delivered while the disk does not answer."""
    async with await RawPeer.connect(broker.port) as producer:
        delayed = "UNIQ_KEY\x01D1\x02DELAY\x011\x02"
        assert (await producer.request(send_command(b"late", properties=delayed))).code == 0
        disk = Disk(broker)
        disk.gate.clear()
        await until(lambda: disk.reads, what="the disk is asked for what is due")
        assert (await producer.request(send_command())).code == ResponseCode.SUCCESS
        broker.store.reader.use(lambda memory, at, count: count)  # as it is after the fetch
        disk.gate.set()
        queue = broker.store.find_queue("T", 0)
        assert queue is not None
        await until(lambda: queue.max_offset == 5, what="the delayed message is delivered")


@pytest.mark.parametrize("weather", ["an error", "no answer"])
async def test_metrics_are_told_whatever_the_disk_does(
    broker: Broker, weather: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Now they are needed most; only how old the unread messages are is left out."""
    monkeypatch.setattr(collecting, "DISK_WAIT_S", 0.1)
    disk = Disk(broker)
    if weather == "an error":
        disk.error = OSError(5, "Input/output error")
    else:
        disk.gate.clear()
    written = (await exposition.text(broker.context)).decode()
    disk.gate.set()
    assert "rocketmq_consumer_lag_messages{" in written
    assert "rocketmq_consumer_lag_latency{" not in written


async def test_what_is_due_is_asked_of_the_disk_once(broker: Broker) -> None:
    """While it does not answer, looking again puts no further reads behind the first."""
    async with await RawPeer.connect(broker.port) as producer:
        delayed = "UNIQ_KEY\x01D1\x02DELAY\x011\x02"
        assert (await producer.request(send_command(b"late", properties=delayed))).code == 0
        disk = Disk(broker)
        disk.gate.clear()
        await until(lambda: disk.reads, what="the disk is asked for what is due")
        looks: list[int] = []
        delays = broker.features.find(Delays)
        assert delays is not None
        deliver = delays.service._deliver

        def counted() -> int | None:
            looks.append(1)
            return deliver()

        delays.service._deliver = counted  # type: ignore[method-assign]
        await until(lambda: len(looks) == 2, what="it looks again")
        assert broker.context.cold.reads.waiting == 0
        broker.store.reader.use(lambda memory, at, count: count)
        disk.gate.set()
        queue = broker.store.find_queue("T", 0)
        assert queue is not None
        await until(lambda: queue.max_offset == 4, what="the delayed message is delivered")
