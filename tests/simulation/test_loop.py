"""The virtual loop: time that nobody waits for, threads that are none, processes that stay dead."""

import asyncio
import time
from random import Random

import pytest

from aerobee.storage.disk.signals import Signal
from simulation.stage.loop import DISK_S, THREAD_S, Stuck, VirtualLoop
from simulation.stage.process import Process, ProcessDied


@pytest.fixture
def loop() -> VirtualLoop:
    """A loop of its own."""
    return VirtualLoop(Random(1))


def test_an_hour_takes_no_time(loop: VirtualLoop) -> None:
    """Sleeping moves the clock, and wakes in the order of time."""
    woken: list[float] = []

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append(round(loop.time(), 2))

    async def main() -> None:
        await asyncio.gather(*(sleep(seconds) for seconds in (3600, 0.5, 60)))

    began_s = time.process_time()
    loop.run_until_complete(main())
    assert woken == [0.5, 60, 3600]
    assert time.process_time() - began_s < 1


def test_waiting_for_nothing_is_an_error(loop: VirtualLoop) -> None:
    """A run that can never go on says so instead of hanging."""

    async def main() -> None:
        await loop.create_future()

    with pytest.raises(Stuck, match="nothing will ever happen"):
        loop.run_until_complete(main())


def test_time_passes_while_code_polls_the_clock(loop: VirtualLoop) -> None:
    """A loop until a time ends although it never sleeps."""

    async def main() -> None:
        while loop.time() < 0.01:  # noqa: ASYNC110 - that is what must end
            await asyncio.sleep(0)

    loop.run_until_complete(main())
    assert loop.turns < 1000


def test_threads_run_in_the_loop(loop: VirtualLoop) -> None:
    """What is given to a thread is done a moment later; its error comes back."""

    async def main() -> None:
        assert await asyncio.to_thread(lambda: 7) == 7
        assert 0 < loop.time() < 2 * THREAD_S
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)

    loop.run_until_complete(main())


def test_a_real_file_number_is_heard_after_a_while(loop: VirtualLoop) -> None:
    """The store's signal, set by this thread, reaches its reader in virtual time."""
    signal = Signal()
    heard = loop.create_future()

    def on_readable() -> None:
        signal.clear()
        heard.set_result(loop.time())

    async def main() -> None:
        loop.add_reader(signal.fileno(), on_readable)
        signal.set()
        assert 0 < await heard < 2 * DISK_S
        assert loop.remove_reader(signal.fileno())
        assert not loop.remove_reader(signal.fileno())

    loop.run_until_complete(main())
    signal.close()


def test_nothing_of_a_dead_process_runs(loop: VirtualLoop) -> None:
    """Its tasks and timers end where they are, and who asked it something is told."""
    done: list[str] = []

    async def main() -> None:
        process = Process("p.1", "10.0.0.1", 1)

        async def work() -> None:
            asyncio.get_running_loop().call_later(2, done.append, "timer")
            try:
                await asyncio.sleep(1)
                done.append("first")
                await asyncio.sleep(9)
            finally:
                done.append("never")

        asked = asyncio.create_task(process.call(work(), "work"))
        kept = [process.spawn(work(), "kept")]
        await asyncio.sleep(1.5)
        kept += process.tasks
        process.died()
        loop.silence(process)
        with pytest.raises(ProcessDied):
            await asked
        await asyncio.sleep(100)
        assert done == ["first", "first"]
        assert not kept[0].done()
        for task in kept:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        graves.extend(kept)

    graves: list[asyncio.Task[None]] = []
    loop.run_until_complete(main())


def test_a_frozen_process_goes_on_where_it_was(loop: VirtualLoop) -> None:
    """Nothing of it runs meanwhile; then everything that is due, in order."""
    done: list[tuple[str, int]] = []

    async def main() -> None:
        process = Process("p.1", "10.0.0.1", 1)

        async def tick() -> None:
            for number in range(6):
                await asyncio.sleep(1)
                done.append((f"tick {number}", int(loop.time())))

        ticking = process.spawn(tick(), "tick")
        await asyncio.sleep(1.5)
        for number in range(3):
            loop.call_at(1.6 + number / 10, note, f"timer {number}", context=process.context.copy())
        loop.freeze(process, 10)
        for number in range(3):
            loop.call_soon(note, f"soon {number}", context=process.context.copy())
        loop.call_at(9.0, note, "late", context=process.context.copy())
        await ticking

    def note(what: str) -> None:
        done.append((what, int(loop.time())))

    loop.run_until_complete(main())
    assert done == [
        ("tick 0", 1),
        *((f"soon {number}", 11) for number in range(3)),
        *((f"timer {number}", 11) for number in range(3)),
        ("late", 11),
        ("tick 1", 11),
        *((f"tick {number}", 10 + number) for number in range(2, 6)),
    ]
