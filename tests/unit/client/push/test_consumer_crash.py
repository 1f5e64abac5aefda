"""A consumer that is killed loses nothing, and with commit="each" repeats only what ran."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from support.waiting import until

from aerobee.client import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage
from aerobee.client.cluster.directory import Cluster
from aerobee.testing import EmbeddedCluster

MESSAGES = 300
CONCURRENCY = 4
PROGRAM = """
import asyncio, sys
from aerobee.client import ConsumeFrom, PushConsumer, PushSettings

async def handle(message):
    print("begun", int(message.body), flush=True)
    await asyncio.sleep(0.005)
    print("ended", int(message.body), flush=True)

async def main():
    settings = PushSettings(concurrency=int(sys.argv[3]), commit="each")
    consumer = PushConsumer(
        "g", namesrv=sys.argv[1], settings=settings, consume_from=ConsumeFrom.FIRST,
        ordered=sys.argv[2] == "ordered",
    )
    consumer.subscribe("t", handle)
    async with consumer:
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("way", ["concurrent", "ordered"])
async def test_a_killed_consumer_repeats_only_what_ran(tmp_path: Path, way: str) -> None:
    """The next one gets every message that had not ended, and hardly one that had."""
    async with EmbeddedCluster(root=tmp_path) as cluster:
        async with Cluster(cluster.namesrv_addr) as brokers:
            await brokers.create_topic("t", 1)
        async with Producer("p", namesrv=cluster.namesrv_addr) as producer:
            for at in range(MESSAGES):
                await producer.send(Message("t", b"%d" % at))
        first = await run_until_killed(cluster.namesrv_addr, way)
        second: list[int] = []

        def handle(message: ReceivedMessage) -> None:
            second.append(int(message.body))

        member = PushConsumer("g", namesrv=cluster.namesrv_addr, consume_from=ConsumeFrom.FIRST)
        member.subscribe("t", handle)
        async with member:
            await until(lambda: len(first["ended"] | set(second)) == MESSAGES)
    running = first["begun"] - first["ended"]
    assert len(running) <= (CONCURRENCY if way == "concurrent" else 1)
    # what ended last may not be committed yet; what ended behind a running one comes again with it
    assert len(first["ended"] & set(second)) <= CONCURRENCY


async def run_until_killed(namesrv: str, way: str) -> dict[str, set[int]]:
    """Run a consumer in a process of its own; kill it when it has handled a third."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, namesrv, way, str(CONCURRENCY), stdout=-1
    )
    assert child.stdout is not None
    told: dict[str, set[int]] = {"begun": set(), "ended": set()}
    killed = False
    async with asyncio.timeout(30):
        while line := await child.stdout.readline():
            word, number = line.split()
            told[word.decode()].add(int(number))
            if len(told["ended"]) >= MESSAGES // 3 and not killed:
                os.kill(child.pid, signal.SIGKILL)
                killed = True
        await child.wait()
    return told
