"""Tasks are held while they run, and ended with their owner."""

import asyncio
import logging

import pytest
from support.waiting import until

from aerobee.remoting.net.tasks import Tasks


async def test_a_failure_is_logged_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody awaits these tasks, so their errors must not be lost."""
    tasks, done = Tasks(), asyncio.Event()

    async def fail() -> None:
        raise ValueError("as expected")

    async def succeed() -> None:
        done.set()

    tasks.start(fail(), "the failing one")
    tasks.start(succeed(), "the other one")
    await done.wait()
    await until(lambda: not len(tasks), what="the end of both tasks")
    assert "the failing one" in caplog.text and "as expected" in caplog.text
    assert "the other one" not in caplog.text


async def test_rounds_survive_their_errors(caplog: pytest.LogCaptureFixture) -> None:
    """A failed round is logged, the next one comes."""
    caplog.set_level(logging.ERROR)
    tasks, rounds = Tasks(), 0

    async def count() -> None:
        nonlocal rounds
        rounds += 1
        raise OSError("every time")

    tasks.every(1, count, "counting")
    await until(lambda: rounds >= 3, what="a third round")
    await tasks.close()
    ended = rounds
    assert caplog.text.count("task failed name=counting") == ended


async def test_close_cancels_waits_and_spares_the_caller() -> None:
    """A task may close its owner; nothing starts afterwards."""
    tasks, log = Tasks(), list[str]()

    async def wait_forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            log.append("cancelled")

    async def close() -> None:
        await tasks.close()
        log.append("closed")

    tasks.start(wait_forever())
    await asyncio.sleep(0)  # a coroutine that never began cannot notice its end
    closing = tasks.start(close())
    assert closing is not None
    await closing
    assert log == ["cancelled", "closed"]
    assert tasks.start(wait_forever()) is None


async def test_close_leaves_alone_what_is_spared_and_what_does_not_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The first is not cancelled; the second is, does not mind, and is named in the log."""
    tasks, gate, cancelled = Tasks(), asyncio.Event(), list[str]()

    async def insist(name: str) -> None:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                cancelled.append(name)

    spared = tasks.start(insist("spared"), "spared")
    stubborn = tasks.start(insist("stubborn"), "stubborn")
    assert spared is not None and stubborn is not None
    await asyncio.sleep(0)
    await tasks.close(spared=[spared], timeout_s=0.01)
    assert cancelled == ["stubborn"] and len(tasks) == 2
    assert caplog.messages == ["task does not end though it is cancelled name=stubborn"]
    gate.set()
    await asyncio.wait([spared, stubborn])
    assert not len(tasks)


async def test_finish_waits_before_it_cancels() -> None:
    """What ends in time ends by itself."""
    tasks, gate, log = Tasks(), asyncio.Event(), list[str]()

    async def pass_gate() -> None:
        await gate.wait()
        log.append("passed")

    async def wait_forever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    tasks.start(pass_gate())
    tasks.start(wait_forever())
    asyncio.get_running_loop().call_soon(gate.set)
    await tasks.finish(0.05)
    assert log == ["passed", "cancelled"]
    assert not len(tasks)


@pytest.mark.parametrize("how", ["raises", "ends", "is cancelled", "raises what nobody catches"])
async def test_work_that_is_to_go_on_begins_anew(how: str) -> None:
    """However it ends; each time is told, with its name, until its owner closes."""
    told: list[tuple[str, BaseException]] = []
    tasks, rounds = Tasks(lambda name, error: told.append((name, error))), 0

    async def work() -> None:
        nonlocal rounds
        rounds += 1
        if how == "raises":
            raise ValueError("unforeseen")
        if how == "raises what nobody catches":
            raise GeneratorExit("of no kind that is foreseen")
        if how == "is cancelled":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)

    tasks.keep(work, "the sweep", pause_s=0)
    await until(lambda: rounds >= 3, what="a third beginning")
    await tasks.close()
    ended = rounds
    assert len(told) >= 2 and {name for name, _ in told} == {"the sweep"}
    for _ in range(5):
        await asyncio.sleep(0)
    assert rounds == ended and not len(tasks)


async def test_what_is_closed_is_no_failure() -> None:
    """The end of an owner is what everything was waiting for."""
    told: list[str] = []
    tasks, begun = Tasks(lambda name, error: told.append(name)), asyncio.Event()

    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    tasks.keep(work, "the sweep", pause_s=0)
    await begun.wait()
    await tasks.close()
    assert not told


def test_work_of_a_program_that_has_ended_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    """Who forgets to close a client is told that, not of each task that `asyncio.run` cancels."""

    async def forget() -> None:
        Tasks().every(60_000, forget, "the forgotten one")
        await asyncio.sleep(0)

    asyncio.run(forget())
    assert not caplog.text
