"""What may handle messages: known to type checkers, else refused at once, or told."""

import functools
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.runs.source_tree import ROOT
from support.stand_ins.fake_cluster import FakeCluster
from support.waiting import until

from aerobee.client import (
    ClientError,
    ConsumeFrom,
    InvalidHandler,
    InvalidUse,
    PushConsumer,
    ReceivedMessage,
)

TYPED = """
from collections.abc import Callable
from aerobee.client import ConsumeResult, Later, PushConsumer, ReceivedMessage

consumer = PushConsumer("g", namesrv="127.0.0.1:9876")

async def one(message: ReceivedMessage) -> None: ...
async def later(message: ReceivedMessage) -> Later | None: ...
def plain(message: ReceivedMessage) -> ConsumeResult: return ConsumeResult.LATER
async def many(messages: list[ReceivedMessage]) -> None: ...
def many_plain(messages: list[ReceivedMessage]) -> Later | None: return None
async def number(message: int) -> None: ...
async def counts(message: ReceivedMessage) -> int: return 1
def refuses(message: ReceivedMessage) -> bool: return False
async def nothing() -> None: ...

class Service:
    async def handle(self, message: ReceivedMessage) -> None: ...
    async def __call__(self, message: ReceivedMessage) -> None: ...

consumer.subscribe("t", one)
consumer.subscribe("t", later, tags="a")
consumer.subscribe("t", plain)
consumer.subscribe("t", lambda message: None)
consumer.subscribe("t", many, batch=10)
consumer.subscribe("t", many_plain, batch=10, tags="a")
consumer.subscribe("t", Service().handle)
consumer.subscribe("t", Service())
consumer.subscribe("t", many)  # wrong
consumer.subscribe("t", many_plain)  # wrong
consumer.subscribe("t", one, batch=10)  # wrong
consumer.subscribe("t", plain, batch=10)  # wrong
consumer.subscribe("t", number)  # wrong
consumer.subscribe("t", counts)  # wrong
consumer.subscribe("t", refuses)  # wrong
consumer.subscribe("t", nothing)  # wrong
consumer.subscribe("t", Service().handle, batch=2)  # wrong
"""
WRONG = {at for at, line in enumerate(TYPED.splitlines(), 1) if line.endswith("# wrong")}


@pytest.fixture
def typed(tmp_path: Path) -> Path:
    """Return a file of a user's that subscribes well, and badly."""
    file = tmp_path / "typed.py"
    file.write_text(TYPED)
    return file


def lines_of(output: str, file: Path) -> set[int]:
    """Return the numbers of the lines of a file in which a checker has found an error."""
    return {int(at) for at in re.findall(rf"{file.name}:(\d+)(?::\d+)?(?: -|:) error", output)}


def test_mypy_finds_the_wrong_handlers(typed: Path) -> None:
    """And no other: lists without `batch`, single ones with it, of a number, with an answer."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--explicit-package-bases", typed.name,
         "--cache-dir", str(ROOT / ".mypy_cache" / "typed")],
        capture_output=True, text=True, check=False, cwd=typed.parent,
        env={"MYPYPATH": str(ROOT / ".dev"), "PATH": ""},
    )  # fmt: skip
    assert lines_of(done.stdout, typed) == WRONG, done.stdout + done.stderr


def test_pyright_finds_the_wrong_handlers(typed: Path) -> None:
    """The same, where there is one."""
    pyright = shutil.which("pyright")
    if pyright is None:
        pytest.skip("no pyright on the path")
    settings = f'{{"extraPaths": ["{ROOT / ".dev"}"]}}'
    (typed.parent / "pyrightconfig.json").write_text(settings)
    command = [pyright, "--pythonpath", sys.executable, typed.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=typed.parent)
    assert lines_of(done.stdout, typed) == WRONG, done.stdout + done.stderr


def yields(message: object) -> Iterator[None]:
    """A generator, which would never run."""
    yield


async def yields_later(message: object) -> AsyncIterator[None]:
    """Another."""
    yield


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (lambda: None, "has to take one message: too many positional arguments"),
        (lambda message, other: None, "has to take one message: missing a required argument"),
        (lambda *, message: None, "has to take one message"),
        ("handle", "handler 'handle' is no function"),
        (None, "handler None is no function"),
        (yields, "handler yields is a generator"),
        (yields_later, "handler yields_later is a generator"),
    ],
)
def test_what_cannot_handle_is_refused_at_once(handler: Any, why: str) -> None:
    """As a ClientError and a TypeError; nothing is subscribed."""
    consumer = PushConsumer("g", namesrv="127.0.0.1:9876")
    with pytest.raises(InvalidHandler, match=re.escape(why)) as raised:
        consumer.subscribe("t", handler)
    assert isinstance(raised.value, ClientError)
    assert isinstance(raised.value, TypeError)
    assert not list(consumer.topics())


@pytest.mark.parametrize("batch", [0, 1025, "10"])
def test_batches_have_bounds(batch: Any) -> None:
    """Told by what was given."""
    consumer = PushConsumer("g", namesrv="127.0.0.1:9876")
    said = f"batch={batch}: allowed are 1 to 1024" if batch != "10" else "batch must be a whole"
    with pytest.raises(InvalidUse, match=re.escape(said)):
        consumer.subscribe("t", lambda messages: None, batch=batch)


class Service:
    """Handlers that are no functions."""

    def handle(self, message: ReceivedMessage) -> None:
        """Do nothing."""

    def __call__(self, message: ReceivedMessage) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    "handler",
    [
        Service(), Service().handle, functools.partial(lambda a, message: None, 1), print,
        lambda *messages: None, lambda message, other=1: None, [].append,
    ],
)  # fmt: skip
def test_what_can_be_called_with_a_message_is_taken(handler: Callable[[Any], None]) -> None:
    """However it is made."""
    consumer = PushConsumer("g", namesrv="127.0.0.1:9876")
    consumer.subscribe("t", handler)
    assert list(consumer.topics()) == ["t"]


@pytest.mark.parametrize("answer", [False, "RECONSUME_LATER", ValueError("no")])
@pytest.mark.parametrize("ordered", [False, True])
async def test_an_answer_that_says_nothing_is_told_once(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, answer: object, ordered: bool
) -> None:
    """With what to do instead; its messages are done."""
    cluster.create("t", 1)
    for at in range(5):
        cluster.brokers[0].store("t", 0, b"%d" % at)

    async def handle(message: ReceivedMessage) -> Any:
        return answer

    consumer = PushConsumer(
        "g", namesrv=cluster.namesrv, consume_from=ConsumeFrom.FIRST, ordered=ordered
    )
    consumer.subscribe("t", handle)
    async with consumer:
        await until(lambda: consumer.statistics().handlers.succeeded == 5)
    (line,) = [each.getMessage() for each in caplog.records if "says nothing" in each.getMessage()]
    assert line.startswith(f"handler of topic t returned {answer!r}, which says nothing")
    assert "raise, or return ConsumeResult.LATER or Later(...)" in line
