"""`send_soon`: an outcome for each message, in order, within bounds."""

import asyncio
import os
from datetime import timedelta
from typing import Any, Final

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.stand_ins.lane_worlds import QUEUE, bodies, done, everything, is_stored, numbered
from support.waiting import until

from aerobee.client import (
    InvalidMessage,
    InvalidUse,
    LatencySettings,
    Message,
    MessageQueue,
    Producer,
    ProducerSettings,
    SendContext,
    SendHook,
    SendQueueFull,
)
from aerobee.client.cluster.channel import Channel
from aerobee.client.sending import lanes
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.message.properties import find_property
from aerobee.remoting.net.connection import Connection

SEND: Final = RequestCode.SEND_MESSAGE_V2


pytestmark = pytest.mark.usefixtures("lane_code", "topic")


async def test_each_gets_where_it_went(cluster: FakeCluster) -> None:
    """Also those that a program never waits for; all are stored once."""
    async with Producer(namesrv=cluster.namesrv) as producer:
        sent = [
            producer.send_soon(Message("t", body, tags="a", keys="k")) for body in numbered(500)
        ]
        assert not any(handle.done for handle in sent)
        await producer.flush()
        assert all(handle.done and handle.error is None for handle in sent)
        for handle in sent:
            result = handle.result()
            assert await handle == result
            broker = next(each for each in cluster.brokers if each.name == result.queue.broker_name)
            record = broker.log["t", result.queue.queue_id][result.queue_offset]
            found = find_property(record.properties, "UNIQ_KEY")
            assert result.message_id == handle.message_id == found
        assert len({handle.message_id for handle in sent}) == 500
    assert everything(cluster) == numbered(500)


async def test_a_handle_can_be_used_in_every_way(cluster: FakeCluster) -> None:
    """Awaited by many, given up by one of them, asked too early, told before and after."""
    called: list[Any] = []
    async with Producer(namesrv=cluster.namesrv) as producer:
        handle = producer.send_soon(Message("t", b"x"))
        with pytest.raises(asyncio.InvalidStateError):
            handle.result()
        with pytest.raises(asyncio.InvalidStateError):
            handle.exception()
        waiting = [asyncio.ensure_future(_result(handle)) for _ in range(3)]
        handle.add_done_callback(called.append)
        await asyncio.sleep(0)
        waiting[0].cancel()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError)
        assert results[1] == results[2] == handle.result()
        assert handle.exception() is None
        handle.add_done_callback(called.append)
        await until(lambda: len(called) == 2)
        assert called == [handle, handle]
        assert "stored" in repr(handle)


async def test_order_is_kept_while_a_connection_is_made(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message in each turn of the loop, also while it is there and who waits has not heard."""
    real = Producer._connect

    async def slowly(producer: Producer, queue: MessageQueue, deadline_s: float) -> Connection:
        connection = await real(producer, queue, deadline_s)
        await asyncio.sleep(0.01)
        return connection

    monkeypatch.setattr(Producer, "_connect", slowly)
    async with Producer(namesrv=cluster.namesrv) as producer:
        await done(producer.send_soon(Message("t", b"warm"), queue=QUEUE))
        connection = producer._open(QUEUE)
        assert connection is not None
        connection.abort("as the test wants")
        sent: list[Any] = []
        expected = []
        while not sent or not sent[0].done:
            expected.append(b"%06d" % len(sent))
            sent.append(producer.send_soon(Message("t", expected[-1]), queue=QUEUE))
            await asyncio.sleep(0)
        assert all(is_stored(each) for each in await done(*sent))
    assert bodies(cluster.brokers[0]) == [b"warm", *expected]


async def test_new_queues_are_taken_as_soon_as_they_are_known(cluster: FakeCluster) -> None:
    """And those that are gone no more."""
    async with Producer(namesrv=cluster.namesrv) as producer:
        for count in (2, 5, 1):
            cluster.create("t", count)
            expected = await producer.fetch_queues("t")
            assert len(expected) == 2 * count
            sent = [producer.send_soon(Message("t", b"x")) for _ in range(20)]
            assert {each.queue for each in await done(*sent)} == set(expected)
            sends = (producer.send(Message("t", b"x")) for _ in range(20))
            assert {each.queue for each in await asyncio.gather(*sends)} == set(expected)


async def _result(handle: Any) -> Any:
    return await handle


async def test_those_of_one_turn_leave_in_one_write(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each connection; so do the sends of many tasks."""
    writes: list[int] = []
    real = Connection.write_now

    def counted(connection: Connection, frames: Any) -> None:
        writes.append(sum(map(len, frames)))
        real(connection, frames)

    monkeypatch.setattr(Channel, "write_now", counted)
    async with Producer(namesrv=cluster.namesrv) as producer:
        await done(*(producer.send_soon(Message("t", b"x"), queue=QUEUE) for _ in range(2)))
        writes.clear()
        sent = [producer.send_soon(Message("t", b"x"), queue=QUEUE) for _ in range(50)]
        await done(*sent)
        assert len(writes) == 1
        await asyncio.gather(*(producer.send(Message("t", b"x"), queue=QUEUE) for _ in range(50)))
        assert len(writes) == 2


async def test_it_is_full_at_so_many_bytes_and_has_room_again(cluster: FakeCluster) -> None:
    """A message is refused, by name, and nothing of it is sent; `room` returns before the end."""
    settings = ProducerSettings(send_soon_bytes_max=20_000)
    async with Producer(namesrv=cluster.namesrv, settings=settings) as producer:
        await producer.room()
        taken: list[Any] = []
        while not producer.full:
            taken.append(producer.send_soon(Message("t", b"x" * 1_000)))
        assert 15 <= len(taken) <= 20
        with pytest.raises(SendQueueFull, match=r"room\(\).*send_soon_bytes_max"):
            producer.send_soon(Message("t", b"refused"))
        await producer.send(Message("t", b"x" * 1_000))  # has its own task that waits
        await producer.room()
        assert not producer.full
        taken.append(producer.send_soon(Message("t", b"last")))
        assert not any(isinstance(each, Exception) for each in await done(*taken))
    assert b"refused" not in everything(cluster)


async def test_what_is_wrong_is_raised_at_the_call(cluster: FakeCluster) -> None:
    """Nothing of it is sent, and nothing is counted."""
    async with Producer(namesrv=cluster.namesrv) as producer:
        await producer.send(Message("t", b"x"))
        for message in (
            Message("t", b""),
            Message("bad topic", b"x"),
            Message("t", b"x" * (4 << 20) + b"x"),
            Message("t", b"x", tags="a\x01b"),
            Message("t", b"x", properties={"KEYS": "k"}, keys="k"),
        ):
            with pytest.raises(InvalidMessage):
                producer.send_soon(message)
        with pytest.raises(InvalidUse, match="one of queue, key and selector"):
            producer.send_soon(Message("t", b"x"), queue=QUEUE, key="k")
        wrong: Any
        for wrong in ([0], tuple(QUEUE), "t"):
            with pytest.raises(InvalidUse, match="queue must be a MessageQueue"):
                producer.send_soon(Message("t", b"x"), queue=wrong)
        wrong = "5"
        for topic in ("t", "unknown"):
            with pytest.raises(InvalidUse, match="timeout_ms must be a whole number"):
                producer.send_soon(Message(topic, b"x"), timeout_ms=wrong)
        await producer.flush()
    assert len(everything(cluster)) == 1


async def test_a_closed_producer_takes_nothing_and_owes_nothing(cluster: FakeCluster) -> None:
    """What was taken before is stored when `close` returns; neither before its start nor after."""
    producer = Producer(namesrv=cluster.namesrv)
    with pytest.raises(InvalidUse, match="not started"):
        producer.send_soon(Message("t", b"x"))
    async with producer:
        sent = [producer.send_soon(Message("t", body)) for body in numbered(2_000)]
    assert all(handle.done and handle.error is None for handle in sent)
    assert everything(cluster) == numbered(2_000)
    with pytest.raises(InvalidUse, match="closed"):
        producer.send_soon(Message("t", b"x"))
    await producer.flush()
    await producer.room()


async def test_a_producer_that_closes_takes_nothing_more(cluster: FakeCluster) -> None:
    """Not even when it has learnt a route meanwhile, for what it had taken before."""
    producer = Producer(namesrv=cluster.namesrv)
    await producer.start()
    sent = producer.send_soon(Message("t", b"x"))
    closing = asyncio.ensure_future(producer.close())
    await asyncio.sleep(0)
    refused = 0
    while not sent.done:
        with pytest.raises(InvalidUse, match="closed"):
            producer.send_soon(Message("t", b"late"))
        refused += 1
        await asyncio.sleep(0)
    await closing
    assert refused
    assert everything(cluster) == [b"x"]


async def test_another_event_loop_is_refused(cluster: FakeCluster) -> None:
    """By name, and with nothing sent: a connection is written to by its own loop alone."""
    async with Producer(namesrv=cluster.namesrv) as producer:
        await done(producer.send_soon(Message("t", b"warm"), queue=QUEUE))

        async def soon() -> None:
            await producer.send_soon(Message("t", b"x"), queue=QUEUE)

        async def awaited() -> None:
            await producer.send(Message("t", b"x"), queue=QUEUE)

        for elsewhere in (soon, awaited):
            with pytest.raises(InvalidUse, match="was started in another event loop"):
                await asyncio.to_thread(asyncio.run, elsewhere())
    assert bodies(cluster.brokers[0]) == [b"warm"]


async def test_hooks_see_each_message(cluster: FakeCluster) -> None:
    """And those of a chosen queue keep their order."""
    seen: list[bytes] = []
    async with Producer(namesrv=cluster.namesrv, hooks=[_Hook(seen)]) as producer:
        sent = [producer.send_soon(Message("t", body), queue=QUEUE) for body in numbered(50)]
        sent += [producer.send_soon(Message("t", b"any")) for _ in range(10)]
        assert all(is_stored(each) for each in await done(*sent))
    assert [body for body in bodies(cluster.brokers[0]) if body != b"any"] == numbered(50)
    assert sorted(seen) == sorted([*numbered(50), *[b"any"] * 10])


class _Hook(SendHook):
    """Notes what is sent."""

    def __init__(self, seen: list[bytes]) -> None:
        self._seen = seen

    def before(self, context: SendContext) -> None:
        """Note it."""
        self._seen.append(context.messages[0].body)


async def test_brokers_are_avoided_as_settings_say(cluster: FakeCluster) -> None:
    """With latency tolerance the checked path sends; all arrive."""
    settings = ProducerSettings(latency=LatencySettings(enabled=True))
    async with Producer(namesrv=cluster.namesrv, settings=settings) as producer:
        cluster.brokers[0].refuse(SEND, ResponseCode.SYSTEM_BUSY, 1)
        sent = [producer.send_soon(Message("t", body)) for body in numbered(30)]
        assert all(is_stored(each) for each in await done(*sent))
    assert everything(cluster) == numbered(30)


async def test_delays_are_taken_and_can_be_recalled(cluster: FakeCluster) -> None:
    """The result has the handle for that."""
    async with Producer(namesrv=cluster.namesrv) as producer:
        await producer.send(Message("t", b"warm"))
        sent = producer.send_soon(Message("t", b"later"), delay=timedelta(hours=1))
        assert (await sent).recall_handle
        await producer.recall(await sent)


async def test_order_is_kept_from_the_first_message_on(cluster: FakeCluster) -> None:
    """Before the route is known, while nobody is connected, compressed, delayed, with any text."""
    expected = []
    async with Producer(namesrv=cluster.namesrv) as producer:
        sent = []
        for at in range(300):
            body = b"%06d" % at if at % 7 else b"%06d" % at + b"z" * 9_000
            more: dict[str, Any] = {"tags": "ü" if at % 5 == 0 else "a", "flag": at % 3}
            sent.append(producer.send_soon(Message("t", body, **more), queue=QUEUE))
            expected.append(b"%06d" % at)
            if at in (3, 50, 51):
                await asyncio.sleep(0)
        assert all(is_stored(each) for each in await done(*sent))
    offsets = [handle.result().queue_offset for handle in sent]
    assert offsets == list(range(300))


async def test_the_child_of_a_fork_makes_other_ids(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the lane keeps how the ids of a millisecond begin, and the fork is within it."""
    monkeypatch.setattr(lanes, "wall_clock_ms", lambda: 1_790_000_000_000)
    async with Producer(namesrv=cluster.namesrv) as producer:
        await done(producer.send_soon(Message("t", b"warm"), queue=QUEUE))
        before = producer.send_soon(Message("t", b"x"), queue=QUEUE).message_id
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                handle = producer.send_soon(Message("t", b"child"), queue=QUEUE)
                os.write(writing, handle.message_id.encode())
            finally:
                os._exit(0)
        os.close(writing)
        os.waitpid(child, 0)  # noqa: ASYNC222  nothing else is to happen
        theirs = os.read(reading, 100).decode()
        os.close(reading)
        ours = producer.send_soon(Message("t", b"x"), queue=QUEUE).message_id
        assert (len(theirs), ours[:28]) == (len(ours), before[:28])
        assert theirs[:28] != ours[:28]
