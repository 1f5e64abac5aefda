"""What a broker serves of more load than it can carry, how late, and whether it recovers.

    PYTHONPATH=tests python -m benchmarks.overload [--rounds 5] [--connections 16] [--only NAME]

The generator takes the best rate of a closed loop, then offers a multiple of it by the clock, over
the same connections and whatever is answered, takes the best rate again, and so on: disks have good
minutes and bad. RocketMQ 5.5.0 follows in turns, warm and with its own limits. Exits with 1 where
Aerobee misses a bar: at twice the load at least 90 % of the best rates before and after is
acknowledged and the best rate comes back as it does after hardly any load, both at the median of
the rounds that nobody disturbed, and no message of these is later than the bound after it came.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from support.interop.processes import ServerFailed

from benchmarks.generator import LoadFailed
from benchmarks.loads import Bar, Load, Variant
from benchmarks.pieces.messages import QUEUES
from benchmarks.reports.memory import FullMemory
from benchmarks.targets import compiling, processes
from benchmarks.targets.brokers import AerobeeTarget, BrokerTarget, RocketMQTarget
from benchmarks.targets.target import Cpus

BODY_BYTES: Final = 128  # with more, a fast machine measures its disk
WINDOW: Final = 64  # open requests of a connection, for the best rate
MULTIPLES: Final = "0.05,1,2,3"  # of the best rate; the first tells how it swings by itself
BEST: Final = "best"
JUDGED: Final = "2"  # ... of which this one has a bar
SERVED_LEAST: Final = 0.9  # of the best rate
AFTER_LEAST: Final = 0.95  # of the best rate before a load, when it is over
IDLE_MOST: Final = 0.1  # a multiple that is no load: the best rate swings by itself after it
WAIT_MS: Final = 200  # waitTimeMillsInSendQueue, as it comes
TURN_MS: Final = 100  # for a beat, the turn in which it is served, and the way back
JIT_WARMUP_S: Final = 15.0  # the JVM's rate trebles in that time; twice, before a rate is taken
OTHERS_MOST: Final = 0.1  # of the CPU time of a load that is judged; beyond it ages are theirs
BLIND_MS: Final = 100.0  # ... and of the generator's absence
ROUNDS_LEAST: Final = 3
LOOK_S: Final = 0.05
WARM_S: Final = 1.5  # before each best rate
SECONDS_MAX: Final = 200

Figures = dict[str, Any]


@dataclass(slots=True)
class Phase:
    """What the generator says of one load, and what the broker used up meanwhile."""

    figures: Figures
    cpu_us: float  # of the broker, per acknowledged message
    memory_mb: float  # the most that the broker held at once, without mapped files
    others_share: float  # of the machine's CPU time: other programs, other machines on its host
    kernel_us: float = 0.0  # of `cpu_us`, in the kernel: sockets, and memory that it had to find

    @property
    def name(self) -> str:
        """The multiple of the best rate, or `best`."""
        return str(self.figures["phase"])

    @property
    def rate(self) -> float:
        """Acknowledged messages per second."""
        return float(self.figures["stored"] / self.figures["seconds"])

    @property
    def disturbed(self) -> bool:
        """Whether others had so much of the machine that ages and rates are not the broker's."""
        return self.others_share > OTHERS_MOST or self.figures["blind_ms"] > BLIND_MS

    @property
    def latest_ms(self) -> float:
        """The greatest age of an acknowledged message since it came to the broker's socket.

        Messages whose connection meanwhile sent bytes again are not among them: a socket that is
        full drops what came, its sender waits 200 ms, and when it came at last is not known.
        """
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
        times = ["--warmup", str(WARM_S), "--seconds", str(seconds), "--multiples", multiples]
        with FullMemory(compiling.BUILD).flowing():
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
    memory, cpu_s, kernel_s, busy_s, at_s = Memory(target), [0.0], [0.0], [0.0], [0.0]
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
                    used_s = cpu_s[-1] - cpu_s[-2]
                    others_s = busy_s[-1] - busy_s[-2] - used_s - figures["generator_cpu_s"]
                    others = others_s / (at_s[-1] - at_s[-2]) / (os.cpu_count() or 1)
                    used_us, kernel_us = (
                        seconds / max(1, figures["stored"]) * 1e6
                        for seconds in (used_s, kernel_s[-1] - kernel_s[-2])
                    )
                    phases.append(Phase(figures, used_us, memory.take_mb(), others, kernel_us))
                    print(_line(target.name, phases), flush=True)
                    continue
                cpu_s.append(processes.cpu_seconds(target.pids()))
                kernel_s.append(processes.kernel_seconds(target.pids()))
                busy_s.append(processes.busy_seconds())
                at_s.append(time.monotonic())
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
    sender_us = figures["generator_cpu_s"] / max(1, figures["sent"]) * 1e6
    ages = " | ".join(
        f"{figures[of][0]:7.1f} {figures[of][1]:7.1f} {figures[of][2]:7.1f}"
        for of in ("came_ms", "due_ms")
    )
    return (
        f"{name:9} {phase.name:>5} {phase.rate:9,.0f}/s {share:5.0%} | {refused:9,} |"
        f" {phase.cpu_us:5.2f} {phase.kernel_us:6.2f} {sender_us:6.2f} {phase.others_share:4.0%} |"
        f" {ages} | {figures['blind_ms']:5.0f} |"
        f" {figures['resent']:9,} {figures['resent_ms'][2]:6.1f} | {phase.memory_mb:5.0f}"
    )


HEAD: Final = """
Ages in ms (p50, p99, longest) of acknowledged messages: since they came to the broker's socket,
and since they were due. CPU in us: of the broker for each acknowledged message, what of that was in
the kernel, of the generator for each sent one; and the share of the machine's CPU time that others
had. Blind: the longest in ms for which the generator looked at no answer, which ages may be too
great by. Resent: acknowledged messages whose connection sent bytes again meanwhile, and the
greatest age of these, which are not in the columns of what came. Memory in MB, of no file's.

broker     load acknowledged, of best |   refused |   CPU kernel sender others |\
      since it came      |        since due        | blind |     resent       | memory"""


def missed(rounds: Sequence[Sequence[Phase]]) -> list[str]:
    """Return the bars that were missed: by the medians of the rates, and by the latest of all.

    A round in which others disturbed a load says nothing of it; fewer than three others say nothing
    at all.
    """
    found = []
    for at in range(1, len(rounds[0]), 2):
        name, quiet = rounds[0][at].name, undisturbed(rounds, at)
        if len(quiet) < ROUNDS_LEAST:
            found.append(
                f"at {name}x others disturbed {len(rounds) - len(quiet)} of {len(rounds)} rounds"
            )
            continue
        latest_ms = max(phases[at].latest_ms for phases in quiet)
        if latest_ms > WAIT_MS + TURN_MS:
            found.append(
                f"at {name}x a message was acknowledged {latest_ms:.0f} ms after it"
                f" came, at most {WAIT_MS} and {TURN_MS} for its turn"
            )
        if name != JUDGED:
            continue
        served, back = shares(quiet, at)
        if median(served) < SERVED_LEAST:
            found.append(f"{median(served):.0%} of the best rate at {JUDGED}x, at least 90%")
        least = min([AFTER_LEAST, *_after_idle(rounds)])
        if median(back) < least:
            found.append(f"{median(back):.0%} of the best rate when {JUDGED}x is over")
    return found


def _after_idle(rounds: Sequence[Sequence[Phase]]) -> list[float]:
    """Return the shares of the best rate after loads that are none: how it swings by itself."""
    idle = [at for at in range(1, len(rounds[0]), 2) if float(rounds[0][at].name) <= IDLE_MOST]
    return [share for at in idle for share in shares(undisturbed(rounds, at), at)[1]]


def undisturbed(rounds: Sequence[Sequence[Phase]], at: int) -> list[Sequence[Phase]]:
    """Return the rounds in which nobody disturbed load `at` and the best rates around it."""
    return [
        phases for phases in rounds if not any(phase.disturbed for phase in phases[at - 1 : at + 2])
    ]


def shares(rounds: Sequence[Sequence[Phase]], at: int) -> tuple[list[float], list[float]]:
    """Return what each round served in its load `at`, and afterwards, as shares of best rates."""
    served = [
        2 * phases[at].rate / (phases[at - 1].rate + phases[at + 1].rate) for phases in rounds
    ]
    return served, [phases[at + 1].rate / phases[at - 1].rate for phases in rounds]


def summary(name: str, rounds: Sequence[Sequence[Phase]]) -> list[str]:
    """Return a line for each load: medians and spread of all rounds."""
    lines = []
    for at in range(1, len(rounds[0]), 2):
        quiet = undisturbed(rounds, at) or rounds
        loads = [phases[at] for phases in quiet]
        served, back = shares(quiet, at)
        rates = _spread([load.rate for load in loads], ",.0f")
        p99_ms = _spread([load.figures["came_ms"][1] for load in loads], ".0f")
        latest_ms = _spread([load.latest_ms for load in loads], ".0f")
        lines.append(
            f"{name} at {loads[0].name}x: {rates}/s, {_spread(served, '.0%')} of best;"
            f" p99 {p99_ms} ms, latest {latest_ms} ms; best afterwards {_spread(back, '.0%')};"
            f" {len(undisturbed(rounds, at))} of {len(rounds)} rounds undisturbed"
        )
    return lines


def _spread(values: Sequence[float], form: str) -> str:
    return f"{median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print a table; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overload", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--body", type=int, default=BODY_BYTES, help="bytes of a message")
    parser.add_argument("--multiples", default=MULTIPLES, help="of the best rate")
    parser.add_argument("--only", choices=[AerobeeTarget.name, RocketMQTarget.name])
    parser.add_argument("--dir", type=Path, help="where the stores are while they are measured")
    options = parser.parse_args(words)
    cpus = Cpus.apart()
    load = Load("send", "", "send", (), Bar(), options.connections, WINDOW, options.body)
    print(HEAD)
    problems: list[str] = []
    rounds: dict[str, list[list[Phase]]] = {}
    kinds = [kind for kind in (AerobeeTarget, RocketMQTarget) if options.only in (None, kind.name)]
    for _, kind in itertools.product(range(options.rounds), kinds):
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
            rounds.setdefault(kind.name, []).append(phases)
    for name, measured in rounds.items():
        print("\n".join(summary(name, measured)))
    if AerobeeTarget.name in rounds:
        problems += missed(rounds[AerobeeTarget.name])
    for each in problems:
        print(f"missed: {each}")
    if not problems:
        print("all bars are met")
    return 1 if problems else 0


if __name__ == "__main__":
    compiling.load_generator()
    compiling.sync_counter()
    sys.exit(main())
