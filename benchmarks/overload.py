"""What a broker serves of more load than it can carry, how late, and whether it recovers.

    PYTHONPATH=tests python -m benchmarks.overload [--seconds 10] [--connections 16] [--only NAME]

The generator takes the best rate of a closed loop, then offers a multiple of it by the clock, over
the same connections and whatever is answered, takes the best rate again, and so on: disks have good
minutes and bad. RocketMQ 5.5.0 follows in the same run, warm and with its own limits. Exits with 1
where Aerobee misses a bar: at twice the load at least 90 % of the best rates before and after is
acknowledged, no message later than the bound after it came, and the best rate comes back.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from support.interop.processes import ServerFailed

from benchmarks import compiling, processes
from benchmarks.brokers import AerobeeTarget, BrokerTarget, RocketMQTarget
from benchmarks.generator import LoadFailed
from benchmarks.loads import Bar, Load, Variant
from benchmarks.messages import QUEUES
from benchmarks.target import Cpus

BODY_BYTES: Final = 128  # with more, a fast machine measures its disk
WINDOW: Final = 64  # open requests of a connection, for the best rate
MULTIPLES: Final = "1,1.5,2,3"  # of the best rate
BEST: Final = "best"
JUDGED: Final = "2"  # ... of which this one has a bar
SERVED_LEAST: Final = 0.9  # of the best rate
AFTER_LEAST: Final = 0.95  # of the best rate before a load, when it is over
WAIT_MS: Final = 200  # waitTimeMillsInSendQueue, as it comes
TURN_MS: Final = 100  # for a beat, the turn in which it is served, and the way back
JIT_WARMUP_S: Final = 15.0  # the JVM's rate trebles in that time; twice, before a rate is taken
LOOK_S: Final = 0.05
SECONDS_MAX: Final = 200

Figures = dict[str, Any]


@dataclass(slots=True)
class Phase:
    """What the generator says of one load, and what the broker used up meanwhile."""

    figures: Figures
    cpu_us: float  # of the broker, per acknowledged message
    memory_mb: float  # the most that the broker held at once, without mapped files

    @property
    def name(self) -> str:
        """The multiple of the best rate, or `best`."""
        return str(self.figures["phase"])

    @property
    def rate(self) -> float:
        """Acknowledged messages per second."""
        return float(self.figures["stored"] / self.figures["seconds"])

    @property
    def latest_ms(self) -> float:
        """The greatest age of an acknowledged message since it came to the broker's socket."""
        return float(self.figures["came_ms"][2])


class Memory:
    """Looks at a broker's memory again and again, in a thread, and keeps the most."""

    def __init__(self, target: BrokerTarget) -> None:
        self._target = target
        self._most = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            self._most = max(self._most, processes.anonymous_bytes(self._target.pids()))

    def take_mb(self) -> float:
        """Return the most since the last call."""
        most, self._most = self._most, 0
        return most / 1e6

    def close(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()


def measure(target: BrokerTarget, load: Load, seconds: float, multiples: str) -> list[Phase]:
    """Start a broker, let the generator run through its phases, and return them."""
    variant = Variant(1, QUEUES, tags_first=False)
    try:
        target.start()
        target.prepare(load, variant)
        words = ["overload", *load.words(variant)[1:]]
        if isinstance(target, RocketMQTarget):
            _warm(target, words)
        times = ["--warmup", "1.5", "--seconds", str(seconds), "--multiples", multiples]
        return _run(target, [*target.generator(target.port, words), *times])
    finally:
        target.stop()


def _warm(target: BrokerTarget, words: Sequence[str]) -> None:
    """Let a JVM compile under full load, whatever it refuses meanwhile."""
    times = ["--warmup", str(JIT_WARMUP_S), "--seconds", "1", "--multiples", "0.5"]
    answers = "\n" * 20  # to the generator's marks
    command = [*target.generator(target.port, list(words)), *times]
    subprocess.run(command, input=answers, capture_output=True, text=True, timeout=60, check=True)


def _run(target: BrokerTarget, command: list[str]) -> list[Phase]:
    phases: list[Phase] = []
    memory, cpu_s = Memory(target), [0.0]
    try:
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdin and child.stdout and child.stderr
            for line in child.stdout:
                if line.strip() not in ("begin", "end"):
                    figures = json.loads(line)
                    used_us = (cpu_s[-1] - cpu_s[-2]) / max(1, figures["stored"]) * 1e6
                    phases.append(Phase(figures, used_us, memory.take_mb()))
                    print(_line(target.name, phases), flush=True)
                    continue
                cpu_s.append(processes.cpu_seconds(target.pids()))
                child.stdin.write("\n")
                child.stdin.flush()
            errors = child.stderr.read().strip()
            if child.wait(SECONDS_MAX):
                raise LoadFailed(f"{target.name}: {errors}")
    finally:
        memory.close()
    return phases


def _line(name: str, phases: Sequence[Phase]) -> str:
    phase = phases[-1]
    figures = phase.figures
    share = (
        phase.rate / next((past for past in reversed(phases[:-1]) if past.name == BEST), phase).rate
    )
    refused = figures["timed_out"] + figures["disk_busy"] + figures["refused"]
    ages = " | ".join(
        f"{figures[of][0]:8.1f} {figures[of][1]:8.1f} {figures[of][2]:8.1f}"
        for of in ("came_ms", "first_ms", "due_ms")
    )
    return (
        f"{name:9} {phase.name:>5} {phase.rate:9,.0f}/s {share:5.0%} | {refused:9,} |"
        f" {phase.cpu_us:6.2f} {figures['generator_cpu_s'] / max(1, figures['sent']) * 1e6:6.2f} |"
        f" {ages} | {figures['blind_ms']:6.1f} | {phase.memory_mb:6.0f}"
    )


HEAD: Final = """
Ages in ms (p50, p99, longest) of acknowledged messages: since they came to the broker's socket,
since their first byte was written, since they were due. CPU in us: of the broker for each
acknowledged message, of the generator for each sent one. Blind: the longest in ms for which the
generator looked at no answer, which ages may be too great by. Memory in MB, without mapped files.

broker     load acknowledged, of best |   refused | CPU  sender |       since it came        |\
        since written       |         since due          |  blind | memory"""


def missed(phases: Sequence[Phase]) -> list[str]:
    """Return the bars that were missed."""
    found = []
    for before, phase, after in zip(phases[:-2:2], phases[1:-1:2], phases[2::2], strict=True):
        share = 2 * phase.rate / (before.rate + after.rate)
        if phase.name == JUDGED and share < SERVED_LEAST:
            found.append(f"{share:.0%} of the best rate at {JUDGED}x, at least {SERVED_LEAST:.0%}")
        if phase.latest_ms > WAIT_MS + TURN_MS:
            found.append(
                f"at {phase.name}x a message was acknowledged {phase.latest_ms:.0f} ms after it"
                f" came, at most {WAIT_MS} and {TURN_MS} for its turn"
            )
        if phase.name == JUDGED and after.rate < AFTER_LEAST * before.rate:
            found.append(f"{after.rate / before.rate:.0%} of the best rate when {JUDGED}x is over")
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print a table; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overload", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each load")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--body", type=int, default=BODY_BYTES, help="bytes of a message")
    parser.add_argument("--multiples", default=MULTIPLES, help="of the best rate")
    parser.add_argument("--only", choices=[AerobeeTarget.name, RocketMQTarget.name])
    parser.add_argument("--dir", type=Path, help="where the stores are while they are measured")
    options = parser.parse_args(words)
    usable = sorted(os.sched_getaffinity(0))
    cpus = Cpus(server=usable[0], generator=usable[-1])
    os.sched_setaffinity(0, {cpus.generator})
    load = Load("send", "", "send", (), Bar(), options.connections, WINDOW, options.body)
    print(HEAD)
    problems: list[str] = []
    for kind in (AerobeeTarget, RocketMQTarget):
        if options.only not in (None, kind.name):
            continue
        with tempfile.TemporaryDirectory(prefix="overload-", dir=options.dir) as folder:
            target = kind(Path(folder) / "target", cpus, sync_flush=False, wait_ms=WAIT_MS)
            try:
                phases = measure(target, load, options.seconds, options.multiples)
            except (
                LoadFailed,
                ServerFailed,
                compiling.ToolMissing,
                subprocess.SubprocessError,
            ) as error:
                print(f"{kind.name} was not measured: {error}")
                problems += ["no figures"] * (kind is AerobeeTarget)
                continue
            if kind is AerobeeTarget:
                problems += missed(phases)
    for each in problems:
        print(f"missed: {each}")
    if not problems:
        print("all bars are met")
    return 1 if problems else 0


if __name__ == "__main__":
    compiling.load_generator()
    compiling.sync_counter()
    sys.exit(main())
