"""Tasks of taskiq run at least once each, at the time that was asked for."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.runs.readme_blocks import python_block
from support.waiting import until
from taskiq import Context, InMemoryBroker, TaskiqDepends, TaskiqEvents, TaskiqMessage
from taskiq.abc.middleware import TaskiqMiddleware
from taskiq.api import run_receiver_task
from taskiq.exceptions import SendTaskError

from aerobee.client import InvalidUse, LitePullConsumer, ProducerSettings, PushSettings
from aerobee.integrations.taskiq import AerobeeBroker
from aerobee.testing import EmbeddedCluster

PROGRAM = """
import asyncio, sys
from taskiq.api import run_receiver_task
from aerobee.integrations.taskiq import AerobeeBroker

broker = AerobeeBroker(sys.argv[1])

@broker.task("work")
async def work(number: int) -> None:
    print(number, flush=True)
    if number == 1:
        await asyncio.Event().wait()

async def main():
    broker.is_worker_process = True
    await broker.startup()
    await run_receiver_task(broker)

asyncio.run(main())
"""


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    """Give a cluster with the topic that tasks go to by default."""
    async with EmbeddedCluster(root=tmp_path) as cluster:
        await cluster.create_topic("taskiq", 2)
        yield cluster


@contextlib.asynccontextmanager
async def worker(broker: AerobeeBroker, **how: Any) -> AsyncIterator[None]:
    """Run the tasks of a broker, as a worker process does, and end as one does."""
    broker.is_worker_process = True
    await broker.startup()
    receiving = asyncio.create_task(run_receiver_task(broker, **how))
    try:
        yield
    finally:
        receiving.cancel()
        await asyncio.wait([receiving])
        del receiving  # with the frames of its traceback
        await broker.shutdown()


async def test_a_task_runs_once_and_its_result_is_kept(cluster: EmbeddedCluster) -> None:
    """Also one that was sent before there was any worker, and one that raises."""
    broker = AerobeeBroker(cluster.namesrv_addr).with_result_backend(
        InMemoryBroker().result_backend
    )
    ran: list[str] = []

    @broker.task
    async def greet(name: str) -> str:
        ran.append(name)
        if name == "nobody":
            raise ValueError(name)
        return f"hello {name}"

    async with broker_client(cluster) as sender:
        early = await greet.kicker().with_broker(sender).kiq("Ann")
    async with worker(broker):
        await until(lambda: ran)
        assert (await broker.result_backend.get_result(early.task_id)).return_value == "hello Ann"
        later = await greet.kiq("Bob")
        assert (await later.wait_result(timeout=10)).return_value == "hello Bob"
        failed = await (await greet.kiq("nobody")).wait_result(timeout=10)
        assert failed.is_err and isinstance(failed.error, ValueError)
        await until(lambda: len(ran) == 3)
    async with worker(broker):  # nothing is left over
        await (await greet.kiq("Eve")).wait_result(timeout=10)
    assert sorted(ran) == ["Ann", "Bob", "Eve", "nobody"]


@contextlib.asynccontextmanager
async def broker_client(cluster: EmbeddedCluster) -> AsyncIterator[AerobeeBroker]:
    """Give a broker that sends and does not work."""
    broker = AerobeeBroker(cluster.namesrv_addr)
    await broker.startup()
    try:
        yield broker
    finally:
        await broker.shutdown()


async def test_labels_say_when(cluster: EmbeddedCluster) -> None:
    """`delay` counts seconds, `eta` is a moment; what is neither is refused before it is sent."""
    broker = AerobeeBroker(cluster.namesrv_addr)
    ran: dict[str, float] = {}

    @broker.task
    async def note(name: str) -> None:
        ran[name] = time.time()

    async with worker(broker):
        began = time.time()
        moment = datetime.now(UTC) + timedelta(seconds=0.6)
        await note.kicker().with_labels(delay=0.4).kiq("delay")
        await note.kicker().with_labels(eta=moment.isoformat()).kiq("eta")
        await note.kicker().with_labels(eta=str(datetime.now(UTC) - timedelta(days=1))).kiq("over")
        for bad in ({"delay": "soon"}, {"eta": "2030-01-01"}, {"delay": 1, "eta": moment},
                    {"delay": float("inf")}, {"eta": 17}, {"delay": -1}):  # fmt: skip
            with pytest.raises(SendTaskError) as refused:
                await note.kicker().with_labels(**bad).kiq("bad")
            assert isinstance(refused.value.__cause__, InvalidUse), bad
        await until(lambda: len(ran) == 3)
    assert ran["delay"] >= began + 0.4 - 0.05 and ran["eta"] >= moment.timestamp() - 0.05
    assert ran["over"] < ran["delay"]


async def test_a_task_is_found_by_its_id(cluster: EmbeddedCluster) -> None:
    """Its id is the message's key."""
    broker = AerobeeBroker(cluster.namesrv_addr)

    @broker.task
    async def work() -> None: ...

    async with broker_client(cluster) as sender:
        sent = await work.kicker().with_broker(sender).kiq()
    async with LitePullConsumer("find", namesrv=cluster.namesrv_addr) as consumer:
        found: list[Any] = []

        async def look() -> None:
            found.extend(await consumer.find("taskiq", key=sent.task_id))

        await look()
        while not found:
            await look()
        assert found[0].keys == [sent.task_id]


async def test_what_a_killed_worker_ran_runs_again(cluster: EmbeddedCluster) -> None:
    """And nothing that is done need."""
    broker = AerobeeBroker(cluster.namesrv_addr)
    ran: list[int] = []

    @broker.task("work")
    async def work(number: int) -> None:
        ran.append(number)

    async with broker_client(cluster) as sender:
        for number in range(4):
            await work.kicker().with_broker(sender).kiq(number)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, cluster.namesrv_addr, stdout=-1, stderr=-3
    )
    assert child.stdout is not None
    async with asyncio.timeout(30):
        first = {int(await child.stdout.readline()) for _ in range(4)}
    os.kill(child.pid, signal.SIGKILL)
    await child.wait()
    assert first == set(range(4))
    async with worker(broker):
        await until(lambda: 1 in ran, 30)


async def test_what_is_dropped_comes_again(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that forgets to acknowledge itself, and one whose middleware fails."""
    monkeypatch.setattr(logging.getLogger("asyncio"), "disabled", True)  # pytest keeps tracebacks
    broker = AerobeeBroker(cluster.namesrv_addr)
    ran: list[str] = []

    class Fails(TaskiqMiddleware):
        async def pre_execute(self, message: TaskiqMessage) -> TaskiqMessage:
            if message.args == ["middleware"] and "middleware" not in ran:
                ran.append("middleware")
                raise RuntimeError("not today")
            return message

    broker.add_middlewares(Fails())

    @broker.task(ack_type="manual")
    async def work(name: str, context: Context = TaskiqDepends()) -> None:  # noqa: B008
        ran.append(name)
        if name != "manual" or ran.count(name) == 2:
            await context.ack()

    async with worker(broker):
        await work.kiq("manual")
        await work.kiq("middleware")
        await until(lambda: len(ran) >= 2)
        await work.kiq("other")  # taskiq keeps the last context of all

        def again() -> bool:
            gc.collect()  # a traceback holds its frames, and they it
            return len(ran) == 5

        await until(again, 20)
    async with worker(broker):
        await work.kiq("last")
        await until(lambda: "last" in ran)
    assert sorted(ran) == ["last", "manual", "manual", "middleware", "middleware", "other"]


async def test_a_shutdown_loses_nothing(cluster: EmbeddedCluster) -> None:
    """What runs ends and is done; what waits, here and in the broker, another worker gets."""
    ran: list[int] = []
    running, leaves = asyncio.Event(), asyncio.Event()

    def broker() -> tuple[AerobeeBroker, Any]:
        made = AerobeeBroker(cluster.namesrv_addr)

        @made.task("work")
        async def work(number: int) -> None:
            running.set()
            await leaves.wait()
            ran.append(number)

        return made, work

    first, work = broker()
    async with worker(first, max_async_tasks=3, max_prefetch=2):
        for number in range(30):
            await work.kiq(number)
        await running.wait()
        asyncio.get_running_loop().call_later(0.1, leaves.set)
    done = set(ran)
    assert done and len(done) == len(ran) < 30
    second, _ = broker()
    async with worker(second):
        await until(lambda: set(ran) == set(range(30)), 20)
    assert len(ran) == 30


async def test_a_broker_that_restarts_loses_no_task(cluster: EmbeddedCluster) -> None:
    """Sends and acknowledgements go on when it is there again, however long that takes.

    The broker shares our event loop: a disk that syncs for seconds holds up the sends as well.
    """
    broker = AerobeeBroker(
        cluster.namesrv_addr,
        settings=PushSettings(concurrency=4, commit="each"),
        producer=ProducerSettings(send_timeout_ms=60_000),
    )
    ran: set[int] = set()

    @broker.task
    async def work(number: int) -> None:
        await asyncio.sleep(0.01)
        ran.add(number)

    async with worker(broker):
        for number in range(20):
            await work.kiq(number)
            if number == 10:
                await cluster.restart_broker()
                asyncio.get_running_loop().call_soon(time.sleep, 3.2)  # more than a send's 3 s
        await until(lambda: len(ran) == 20, 60)


@pytest.mark.timeout(120)
async def test_the_example_runs(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """What the README shows, with `taskiq worker`; it ends when it is asked to."""
    await cluster.create_topic("mails", 1)
    program = python_block("integrations/README.md", "taskiq").replace(
        "127.0.0.1:9876", cluster.namesrv_addr
    )
    (tmp_path / "tasks.py").write_text(program)
    sender = await asyncio.create_subprocess_exec(sys.executable, "tasks.py", cwd=tmp_path)
    assert await sender.wait() == 0
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "taskiq", "worker", "--workers", "1", "tasks:broker",
        cwd=tmp_path, stdout=-1, stderr=-3,
    )  # fmt: skip
    assert worker.stdout is not None
    async with asyncio.timeout(60):
        said = {await worker.stdout.readline() for _ in range(2)}
        assert said == {b"hello Ann\n", b"hello Bob\n"}
        worker.terminate()
        assert await worker.wait() == 0


async def test_who_does_not_start_leaves_nothing_open(cluster: EmbeddedCluster) -> None:
    """What an event of the startup raises is raised, and a second try is a fresh one."""
    broker = AerobeeBroker(cluster.namesrv_addr)
    fails = True

    @broker.on_event(TaskiqEvents.CLIENT_STARTUP)
    async def event(state: object) -> None:
        if fails:
            raise RuntimeError("no database")

    @broker.task
    async def work() -> None: ...

    with pytest.raises(RuntimeError, match="no database"):
        await broker.startup()
    with pytest.raises(SendTaskError):
        await work.kiq()
    fails = False
    await broker.startup()
    await work.kiq()
    await broker.shutdown()


def test_workers_of_different_topics_are_different_groups() -> None:
    """Members of one group would be given queues of each other's topics, and read none of them."""
    brokers = (
        AerobeeBroker("127.0.0.1:1"),
        AerobeeBroker("127.0.0.1:1", topic="mails"),
        AerobeeBroker("127.0.0.1:1", topic="films", group="mine"),
    )
    groups = {broker._producer.group for broker in brokers}
    assert groups == {"taskiq", "mails", "mine"}
