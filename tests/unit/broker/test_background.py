"""What a broker does beside its requests goes on, whatever ends a part of it."""

import asyncio
from pathlib import Path

import pytest
from support.servers.live_broker import live_broker
from support.waiting import until

from aerobee.broker.health import parts
from aerobee.broker.health.troubles import Troubles
from aerobee.broker.pulls.held import Holds
from aerobee.remoting.net import tasks as tasks_module
from aerobee.storage.store import MessageStore

WORK = ("registration", "held pulls", "expiry", "samples", "troubles", "flush", "tables")
OTHER_WORK = ("delay offsets", "twins")


def running(name: str) -> list["asyncio.Task[None]"]:
    """Return the tasks of one name that have not ended."""
    return [task for task in asyncio.all_tasks() if task.get_name() == name]


@pytest.mark.parametrize("name", [*WORK, *OTHER_WORK])
async def test_a_task_that_ends_is_counted_and_begins_anew(
    tmp_path: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without its flushes, say, a broker would acknowledge for days what no disk has."""
    monkeypatch.setattr(tasks_module, "RESTART_S", 0)
    async with live_broker(tmp_path, namesrv_addr="127.0.0.1:1") as live:
        (task,) = running(name)
        task.cancel()
        await until(lambda: task.done() and running(name), what="it has begun anew")
        faults = live.broker.context.health.faults
        assert faults.counts == {name: 1}
        assert f"where={name.replace(' ', '_')}" in caplog.text
    assert not running(name), "a stop ends it for good"


@pytest.mark.parametrize(
    ("name", "part", "method"),
    [
        ("held pulls", Holds, "sweep"),
        ("flush", MessageStore, "tick"),
        ("troubles", Troubles, "look"),
    ],
)
async def test_a_round_that_raises_is_counted_and_the_next_one_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, part: type, method: str
) -> None:
    """One bad round is no reason for the task to end."""
    rounds: list[int] = []

    def raises(_: object) -> None:
        rounds.append(1)
        raise ValueError("unforeseen")

    monkeypatch.setattr(part, method, raises)
    monkeypatch.setattr(parts, "LOOK_INTERVAL_S", 0.01)
    async with live_broker(tmp_path, flush_interval_commit_log=10) as live:
        (task,) = running(name)
        await until(lambda: len(rounds) >= 2 or task.done(), what="a second round")
        assert not task.done()
        assert live.broker.context.health.faults.counts["periodic work"] >= 2
        monkeypatch.undo()
