"""A broker that is killed, or stopped, and started again within a send's time is no error."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.rocketmq_server import RocketMQ
from support.waiting import until

from aerobee.client import ConsumeFrom, Message, Producer, PushConsumer, ReceivedMessage

pytestmark = [pytest.mark.interop, pytest.mark.needs("java")]

TIMEOUT_MS = 60_000  # a JVM takes its time on a busy machine
MESSAGES = 40


@pytest.mark.parametrize("kind", [Aerobee, RocketMQ], ids=["aerobee", "rocketmq"])
async def test_sends_wait_for_a_broker_that_comes_back(kind: type[Cluster], tmp_path: Path) -> None:
    """By turns and by key, after a kill and after a clean stop; all is stored, nothing twice."""
    got: list[bytes] = []

    async def handle(message: ReceivedMessage) -> None:
        got.append(message.body)

    with kind(tmp_path / "cluster") as cluster:
        async with Producer("restarts", namesrv=cluster.namesrv) as producer:
            await producer.send(Message("restarts", b"first"))

            async def send_some(name: str, key: str | None) -> None:
                for at in range(MESSAGES):
                    body = f"{name} {at}".encode()
                    await producer.send(Message("restarts", body), key=key, timeout_ms=TIMEOUT_MS)

            ends = {"killed": cluster.kill_broker, "stopped": cluster.stop_broker}
            if kind is RocketMQ:
                del ends["stopped"]  # a JVM's start takes fifteen seconds
            for name, end in ends.items():
                await asyncio.to_thread(end)
                sending = [
                    asyncio.create_task(send_some(f"{name} turns", None)),
                    asyncio.create_task(send_some(f"{name} key", "k")),
                ]
                await asyncio.sleep(0.5)
                assert not any(each.done() for each in sending)
                await asyncio.to_thread(cluster.start)
                await asyncio.gather(*sending)
        consumer = PushConsumer(
            "restarts-readers", namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST
        )
        consumer.subscribe("restarts", handle)
        async with consumer:
            await until(lambda: len(set(got)) == 2 * len(ends) * MESSAGES + 1, 60)
    assert max(Counter(got).values()) == 1
