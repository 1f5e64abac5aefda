"""What it costs to wait: the hand-off to the loop's thread, sends by threads to a broker of ours.

    PYTHONPATH=tests python -m benchmarks.pieces.bench_sync [--messages N] [--rounds N]

Each line has the best of its rounds: how many a second, and CPU of the client's process for each,
all threads together. The broker and the client have a processor each where there are two.
"""

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from support.interop.aerobee_server import Aerobee

from aerobee.client.sync import Message, Producer
from aerobee.client.sync.calls import Note
from aerobee.client.sync.loop_thread import LoopThread, use_loop_thread

BODY: Final = os.urandom(1024)
WARM: Final = 500


class Figure(NamedTuple):
    """How fast one thing went."""

    rate: float
    cpu_us: float


def measure(
    count: int, threads: int, one: Callable[[], object], last: Callable[[], None]
) -> Figure:
    """Have threads do something `count` times in all, and wait for the last of it."""

    def work() -> None:
        for _ in range(count // threads):
            one()

    workers = [threading.Thread(target=work) for _ in range(threads)]
    began_s, cpu_s = time.perf_counter(), time.process_time()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    last()
    done = count // threads * threads
    return Figure(
        done / (time.perf_counter() - began_s), (time.process_time() - cpu_s) / done * 1e6
    )


def report(name: str, rounds: int, run: Callable[[], Figure]) -> None:
    """Print the best round by CPU."""
    best = min((run() for _ in range(rounds)), key=lambda figure: figure.cpu_us)
    print(f"{name:44} {best.rate:12,.0f}/s {best.cpu_us:8.2f} us")


def hand_offs(thread: LoopThread, count: int, rounds: int) -> None:
    """Measure what reaches the loop's thread, without a client behind it."""

    def wait() -> None:
        answered = threading.Lock()
        answered.acquire()
        thread.post(Note(answered.release))
        answered.acquire()

    async def nothing() -> None:
        """Do nothing, as a call."""

    cases: list[tuple[str, Callable[[], object]]] = [
        ("put before the loop, nobody waits", lambda: thread.post(Note(int))),
        ("put before the loop, and wait", wait),
        ("a call, and wait", lambda: thread.call(nothing()).wait()),
    ]
    for name, one in cases:
        for threads in (1, 8):
            run = lambda one=one, threads=threads: measure(count, threads, one, wait)
            report(f"{name}, {threads} threads", rounds, run)


def sends(namesrv: str, count: int, rounds: int) -> None:
    """Measure sends of 1 KiB."""
    with Producer("bench", namesrv=namesrv) as producer:
        for _ in range(WARM):
            producer.send(Message("bench", BODY))

        def send() -> None:
            producer.send(Message("bench", BODY, tags="a", keys="k"))

        def send_soon() -> None:
            producer.send_soon(Message("bench", BODY, tags="a", keys="k"))

        for name, one, times in (("send", send, 1), ("send_soon", send_soon, 5)):
            for threads in (1, 8):
                run = lambda one=one, threads=threads, times=times: measure(
                    times * count, threads, one, producer.flush
                )
                report(f"{name}, {threads} threads", rounds, run)


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, processors[:1])  # the servers are born there
    with tempfile.TemporaryDirectory() as folder, Aerobee(Path(folder)) as cluster:
        os.sched_setaffinity(0, processors[-1:])
        thread = use_loop_thread()
        hand_offs(thread, options.messages, options.rounds)
        sends(cluster.namesrv, options.messages, options.rounds)
        thread.give_back()


if __name__ == "__main__":
    main()
