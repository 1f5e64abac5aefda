"""What a topic costs that stores a producer's retry once: the rate beside one that does not.

    PYTHONPATH=tests .venv/bin/python -m benchmarks.producing.stored_once [--rounds 3] [--seconds 3]

Two brokers take turns, alike but for the attribute of their topics; nothing is sent twice. Exits
with 1 where the attribute costs more than the bar.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from support.interop.raw_remoting import RawClient

from benchmarks.generator import Measurement
from benchmarks.loads import LOADS, Load, Variant
from benchmarks.targets import compiling
from benchmarks.targets.brokers import AerobeeTarget, topic_fields
from benchmarks.targets.target import Cpus, Timing

NAMES: Final = ("send-1x64", "send-16x64", "send-128B", "batch-1x64")
COST_MOST: Final = 0.25  # of the rate
_UPDATE_AND_CREATE_TOPIC: Final = 17


class OnceTarget(AerobeeTarget):
    """This project with topics that store a retry once."""

    name = "once"

    def prepare(self, load: Load, variant: Variant) -> None:
        """Make the topics, which ask for it."""
        with RawClient(self.cluster.broker) as client:
            for topic in variant.topic_names():
                fields = topic_fields(topic, variant.queues)
                fields["attributes"] = "+aerobee.dedup.seconds=60"
                answer = client.call(_UPDATE_AND_CREATE_TOPIC, fields)
                assert answer.code == 0, answer


def measure(load: Load, folder: Path, rounds: int, seconds: float) -> list[list[Measurement]]:
    """Return what each round measured of a topic that does not ask, and of one that does."""
    cpus, variant, found = Cpus.apart(), load.variants[0], []
    for number in range(rounds):
        turn = []
        kinds = (AerobeeTarget, OnceTarget)
        for kind in kinds if number % 2 == 0 else reversed(kinds):
            target = kind(folder / f"{load.name}-{number}-{kind.__name__}", cpus, sync_flush=False)
            try:
                target.start()
                target.prepare(load, variant)
                turn.append((kind is OnceTarget, target.measure(load, variant, Timing(1, seconds))))
            finally:
                target.stop()
        found.append([measured for _, measured in sorted(turn, key=lambda each: each[0])])
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Print the rates and what the attribute costs; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run")
    parser.add_argument("--only", choices=NAMES, action="append", help="a load; may be repeated")
    options = parser.parse_args(words)
    compiling.load_generator()
    compiling.sync_counter()
    status = 0
    for load in LOADS:
        if load.name not in (options.only or NAMES):
            continue
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            turns = measure(load, Path(folder), options.rounds, options.seconds)
        plain, once = (median(turn[at].per_second for turn in turns) for at in (0, 1))
        plain_us, once_us = (median(turn[at].cpu_us for turn in turns) for at in (0, 1))
        cost = median(1 - turn[1].per_second / turn[0].per_second for turn in turns)
        status |= cost > COST_MOST
        print(
            f"{load.title}: {plain:,.0f} msg/s without, {once:,.0f} with the attribute,"
            f" {cost:.0%} less; {plain_us:.2f} and {once_us:.2f} us of CPU",
            flush=True,
        )
    return status


if __name__ == "__main__":
    sys.exit(main())
