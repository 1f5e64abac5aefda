"""Many wait for one piece of work, and nobody's leaving disturbs the others."""

import asyncio
import time

import pytest

from aerobee.remoting.errors import NotConnected
from aerobee.remoting.net.single_flight import SingleFlight

MANY = 20_000


async def after(gate: asyncio.Event, error: Exception | None = None) -> str:
    """Work that ends when the gate is opened."""
    await gate.wait()
    if error is not None:
        raise error
    return "done"


async def test_all_get_the_result_but_those_who_left() -> None:
    """A cancelled caller ends alone."""
    gate = asyncio.Event()
    shared = SingleFlight(after(gate))
    callers = [asyncio.create_task(shared.wait()) for _ in range(5)]
    await asyncio.sleep(0)
    callers[2].cancel()
    await asyncio.sleep(0)
    gate.set()
    results = await asyncio.gather(*callers, return_exceptions=True)
    assert [each for each in results if each == "done"] == ["done"] * 4
    assert isinstance(results[2], asyncio.CancelledError)


async def test_all_get_the_error() -> None:
    """What the work raises is raised where it is waited for."""
    gate = asyncio.Event()
    shared = SingleFlight(after(gate, NotConnected("nobody there")))
    callers = [asyncio.create_task(shared.wait()) for _ in range(5)]
    await asyncio.sleep(0)
    gate.set()
    for result in await asyncio.gather(*callers, return_exceptions=True):
        assert isinstance(result, NotConnected)


async def test_cancelled_work_cancels_who_waits() -> None:
    """The owner ends it for all."""
    shared = SingleFlight(after(asyncio.Event()))
    caller = asyncio.create_task(shared.wait())
    await asyncio.sleep(0)
    shared.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller


async def test_giving_up_together_is_cheap() -> None:
    """Thousands whose time is up at once do not stop the loop: it takes as much for each."""
    gate = asyncio.Event()
    shared = SingleFlight(after(gate))
    callers = [asyncio.create_task(shared.wait()) for _ in range(MANY)]
    await asyncio.sleep(0)
    began_s = time.process_time()
    for caller in callers:
        caller.cancel()
    await asyncio.wait(callers)
    assert time.process_time() - began_s < 2.0  # looking through the others: ten times that
    gate.set()
    assert await shared.task == "done"
