"""What `help()` shows of consumers: each name has an example, and the examples run."""

import ast
import asyncio
import inspect
import re
import signal
import sys
import textwrap
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

import aerobee.client
from aerobee.client import ConsumeFrom, LitePullConsumer, PullConsumer, PushConsumer

PROGRAMS = {
    "PushConsumer": b"orders paid b",
    "LitePullConsumer": b"0 b",
    "PullConsumer": b"0 FOUND",
}
"""Classes whose example is a program of its own, and how what it prints begins."""
PUSH = ("PushStatistics", "HandlerStatistics", "TopicStatistics", "QueueStatistics")
SNIPPETS = {
    "ConsumeFrom": "push", "ConsumeResult": "push", "Later": "push",
    "MessageModel": "push", "PullResult": "pull", "PushConsumer.samples": "push",
    "PushConsumer.statistics": "push", "PushConsumer.subscribe": "push", "ReceivedMessage": "push",
    "LitePullConsumer.poll": "lite", "LitePullConsumer.samples": "lite",
    "LitePullConsumer.statistics": "lite", "StatisticSample": "push",
    "ReceivedMessage.user_properties": "push", **dict.fromkeys(PUSH, "push"),
}  # fmt: skip
"""Names whose example is a part of a program, and the consumer that it speaks of."""


def examples(name: str) -> str:
    """Return the indented block of a name's documentation."""
    thing: Any = aerobee.client
    for part in name.split("."):
        thing = getattr(thing, part)
    text = inspect.getdoc(thing) or ""
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text + "\n", re.MULTILINE)
    assert blocks, f"{name} has no example"
    return textwrap.dedent("".join(blocks))


@pytest.fixture
async def paid(cluster: FakeCluster) -> AsyncIterator[FakeCluster]:
    """A topic with one queue and three messages."""
    cluster.brokers.pop()
    cluster.create("orders", 1)
    for at in range(3):
        cluster.brokers[0].store("orders", 0, b"%d" % at, b"TAGS\x01paid\x02")
    yield cluster


@pytest.mark.parametrize("name", PROGRAMS)
async def test_the_example_of_a_consumer_is_a_program(paid: FakeCluster, name: str) -> None:
    """It prints messages, and ends by itself or when it is told to."""
    program = "import asyncio\nfrom aerobee.client import *\n" + examples(name)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", "-c", program.replace("127.0.0.1:9876", paid.namesrv),
        stdout=-1,
    )  # fmt: skip
    assert child.stdout is not None
    async with asyncio.timeout(30):
        line = await child.stdout.readline()
        if name == "PushConsumer":
            child.send_signal(signal.SIGTERM)
        await child.wait()
    assert line.startswith(PROGRAMS[name])
    assert child.returncode == 0


@pytest.mark.parametrize("name", SNIPPETS)
async def test_the_example_of_a_name_runs(
    paid: FakeCluster, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it stands, where it speaks of a consumer, a message or a queue that there is."""
    code = compile(
        examples(name).replace("127.0.0.1:9876", paid.namesrv),
        name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
    )  # fmt: skip
    push = PushConsumer("push", namesrv=paid.namesrv, consume_from=ConsumeFrom.FIRST)
    got: list[Any] = []
    push.subscribe("orders", got.append)
    lite = LitePullConsumer("lite", namesrv=paid.namesrv, consume_from=ConsumeFrom.FIRST)
    lite.subscribe("orders")
    async with push, lite, PullConsumer("pull", namesrv=paid.namesrv) as pull:
        await until(lambda: len(got) == 3)
        await until(lambda: bool(lite.assignment()))
        names = {name: getattr(aerobee.client, name) for name in aerobee.client.__all__} | {
            "consumer": {"push": push, "lite": lite, "pull": pull}[SNIPPETS[name]],
            "message": got[0],
            "queue": push.queues()[0],
        }
        running = eval(code, names)
        if inspect.isawaitable(running):
            await running
        if callable(handle := names.get("handle")):
            await handle([got[0]] if name == "PushConsumer.subscribe" else got[0])
    printed = capsys.readouterr().out
    assert bool(printed) == ("print(" in examples(name))


@pytest.mark.parametrize("name", ["PushConsumer", "LitePullConsumer", "ConsumeFrom"])
def test_it_is_said_what_a_new_group_gets_first(name: str) -> None:
    """Where people look: RocketMQ's rule of young topics surprises everybody once."""
    text = inspect.getdoc(getattr(aerobee.client, name)) or ""
    for word in ("LAST", "FIRST", "TIMESTAMP", "in memory" if "Consumer" in name else "memory"):
        assert word in text
