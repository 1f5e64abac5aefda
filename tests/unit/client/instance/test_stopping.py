"""Services that are ended by signals: nothing is handled twice, and nobody waits for ever."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ConsumeFrom,
    InvalidUse,
    LitePullConsumer,
    Producer,
    PushConsumer,
    ReceivedMessage,
    Unavailable,
    run,
)

MESSAGES = 20
HEAD = """
import asyncio, os, signal, sys, time
from aerobee.client import *

def push(group, handle, **options):
    consumer = PushConsumer(
        group, namesrv=sys.argv[1], consume_from=ConsumeFrom.FIRST, **options
    )
    consumer.subscribe("t", handle)
    return consumer

async def handle(message):
    print("handled", message.body.decode(), flush=True)

"""
PUSH = "asyncio.run(push('g', handle).run())"
TWO = """
consumers = [push("g", handle), push("other", lambda message: None)]
consumers[1].unsubscribe("t")
consumers[1].subscribe("another", lambda message: None)
asyncio.run(run(*consumers))
"""
UVLOOP = "import uvloop; uvloop.run(push('g', handle).run())"
LITE = """
async def work(consumer):
    async for message in consumer:
        await handle(message)
    print("after", flush=True)

consumer = LitePullConsumer("g", namesrv=sys.argv[1], consume_from=ConsumeFrom.FIRST)
consumer.subscribe("t")
asyncio.run(consumer.run(work))
"""
POLLS = LITE.replace("async for message in consumer:", "while True:").replace(
    "await handle(message)",
    "for message in await consumer.poll():\n            await handle(message)",
)
SLOW = """
async def slowly(message):
    print("begun", flush=True)
    await asyncio.sleep(float(sys.argv[2]))
    print("ended", flush=True)

asyncio.run(push("g", slowly, settings=PushSettings(concurrency=1)).run())
"""
HELD = SLOW.replace("await asyncio.sleep", "time.sleep")


@pytest.fixture
async def one_queue(cluster: FakeCluster) -> AsyncIterator[FakeCluster]:
    """MESSAGES in the only queue of t."""
    cluster.brokers.pop()
    cluster.create("t", 1)
    cluster.create("another", 1)
    for at in range(MESSAGES):
        cluster.brokers[0].store("t", 0, b"%d" % at)
    yield cluster


async def started(program: str, namesrv: str, *arguments: str) -> asyncio.subprocess.Process:
    """Run a program in a process of its own."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "error",
        "-c",
        HEAD + program,
        namesrv,
        *arguments,
        stdout=-1,
        stderr=-1,
    )


async def lines(child: asyncio.subprocess.Process, count: int, word: str = "handled") -> list[str]:
    """Read so many lines that begin with a word."""
    assert child.stdout is not None
    found: list[str] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            line = (await child.stdout.readline()).decode()
            assert line, "it has ended"
            found += [line.strip()] if line.startswith(word) else []
    return found


async def ended(child: asyncio.subprocess.Process) -> tuple[str, str]:
    """Wait for the end; return what else it has printed."""
    async with asyncio.timeout(30):
        output, errors = await child.communicate()
    return output.decode(), errors.decode()


@pytest.mark.parametrize(
    ("program", "number"),
    [
        (PUSH, signal.SIGTERM),
        (PUSH, signal.SIGINT),
        (TWO, signal.SIGTERM),
        (UVLOOP, signal.SIGTERM),
        (LITE, signal.SIGTERM),
        (POLLS, signal.SIGINT),
    ],
)
async def test_what_was_handled_does_not_come_again(
    one_queue: FakeCluster, program: str, number: signal.Signals
) -> None:
    """The process ends well, and another life of it gets what came since alone."""
    child = await started(program, one_queue.namesrv)
    await lines(child, MESSAGES)
    child.send_signal(number)
    output, errors = await ended(child)
    assert (child.returncode, errors) == (0, "")
    assert ("after" in output) == (program is LITE)
    assert one_queue.brokers[0].committed["g", "t", 0] == MESSAGES
    one_queue.brokers[0].store("t", 0, b"new")
    again = await started(program, one_queue.namesrv)
    assert await lines(again, 1) == ["handled new"]
    again.send_signal(signal.SIGTERM)
    await ended(again)
    assert again.returncode == 0


async def test_a_close_that_waits_for_a_handler_says_so(one_queue: FakeCluster) -> None:
    """It may end, and what it did is committed."""
    child = await started(SLOW, one_queue.namesrv, "0.8")
    await lines(child, 1, "begun")
    child.send_signal(signal.SIGTERM)
    output, errors = await ended(child)
    assert (child.returncode, output) == (0, "ended\n")
    assert errors.strip() == "waiting up to 10 s for 1 handler, then closing group=g"
    assert one_queue.brokers[0].committed["g", "t", 0] == 1


@pytest.mark.parametrize("program", [SLOW, HELD])
async def test_a_second_signal_ends_the_process_at_once(
    one_queue: FakeCluster, program: str
) -> None:
    """Also where a handler holds the loop; the message of the handler is not done."""
    child = await started(program, one_queue.namesrv, "60")
    await lines(child, 1, "begun")
    for number in (signal.SIGTERM, signal.SIGINT):
        child.send_signal(number)
        await asyncio.sleep(0.1)  # the kernel merges what comes at the same time
    async with asyncio.timeout(5):
        await ended(child)
    assert child.returncode == -signal.SIGINT
    assert one_queue.brokers[0].committed.get(("g", "t", 0), 0) == 0


def consumer(namesrv: str, group: str = "g") -> PushConsumer:
    """Return one that handles what there is, and has not begun."""
    member = PushConsumer(group, namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    member.subscribe("t", lambda message: None)
    return member


async def test_it_returns_when_a_handler_closes_the_consumer(one_queue: FakeCluster) -> None:
    """And what was set for the signals before is set again."""
    before = signal.getsignal(signal.SIGTERM)
    member = PushConsumer("g", namesrv=one_queue.namesrv, consume_from=ConsumeFrom.FIRST)

    async def handle(message: ReceivedMessage) -> None:
        assert signal.getsignal(signal.SIGTERM) != before
        await member.close()

    member.subscribe("t", handle)
    async with asyncio.timeout(5):
        await member.run()
    assert signal.getsignal(signal.SIGTERM) is before


async def test_what_does_not_start_closes_the_others(one_queue: FakeCluster) -> None:
    """Its error is raised; a run without a client is refused."""
    member = consumer(one_queue.namesrv)
    nothing = PushConsumer("other", namesrv=one_queue.namesrv)
    with pytest.raises(InvalidUse, match="subscribes to nothing"):
        await run(member, nothing)
    assert not member.client_id
    with pytest.raises(InvalidUse, match="needs a client"):
        await run()


async def test_a_producer_outlives_the_handlers_that_use_it(one_queue: FakeCluster) -> None:
    """Consumers are closed first, whatever the order; a cancelled run closes all."""
    order: list[str] = []
    producer, member = Producer("p", namesrv=one_queue.namesrv), consumer(one_queue.namesrv)
    for name, client in (("producer", producer), ("consumer", member)):

        async def close(
            name: str = name, close: object = client.close, client: object = client
        ) -> None:
            order.append(name)
            assert callable(close)
            await close()

        setattr(client, "close", close)  # noqa: B010
    running = asyncio.create_task(run(producer, member))
    await until(lambda: bool(member.queues()))
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert order == ["consumer", "producer"]
    assert not member.client_id


async def test_an_error_of_the_work_is_raised_and_its_message_comes_again(
    one_queue: FakeCluster,
) -> None:
    """A loop of one's own that returns by itself has consumed what it was given."""
    broker = one_queue.brokers[0]

    async def fails(polling: LitePullConsumer) -> None:
        async for message in polling:
            if message.queue_offset == 3:
                raise Unavailable("the database is gone")

    async def ends(polling: LitePullConsumer) -> None:
        async for message in polling:
            if message.queue_offset == 5:
                return

    for work, offset in ((fails, 3), (ends, 6)):
        polling = LitePullConsumer("g", namesrv=one_queue.namesrv, consume_from=ConsumeFrom.FIRST)
        polling.subscribe("t")
        if work is fails:
            with pytest.raises(Unavailable, match="the database is gone"):
                await polling.run(work)
        else:
            await polling.run(work)
        assert broker.committed["g", "t", 0] == offset
