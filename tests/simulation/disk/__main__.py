"""Run seeds of disks: `PYTHONPATH=tests python -m simulation.disk [-v] [-j N] SEED|FROM-TO ...`.

`-v` shows every operation of a seed. Several seeds are run side by side, with the rate so far.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from simulation.disk.folders import scratch
from simulation.disk.run import Verdict, simulate

SHOWN_EVERY: Final = 100  # seeds


def main() -> int:
    """Run the seeds that the command line names; 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m simulation.disk", description=__doc__)
    parser.add_argument("seeds", nargs="+", help="a number, or FROM-TO")
    parser.add_argument("-v", action="store_true", help="show every operation")
    parser.add_argument("-j", type=int, default=1, metavar="WORKERS", help="seeds at a time")
    options = parser.parse_args()
    seeds = list(_numbers(options.seeds))
    if options.v or len(seeds) == 1:
        with scratch() as folder:
            show(simulate(seeds[0], folder, print if options.v else None))
        seeds = seeds[1:]
    failed, count, began_s = 0, 0, time.monotonic()
    proofs: Counter[str] = Counter()
    with ProcessPoolExecutor(options.j) as workers:
        for verdict in workers.map(one, seeds, chunksize=10):
            count += 1
            proofs += verdict.proofs
            if verdict.violation:
                failed += 1
                show(verdict)
            if count % SHOWN_EVERY == 0 or count == len(seeds):
                rate = count / (time.monotonic() - began_s)
                print(
                    f"{count} of {len(seeds)} seeds, {failed} failed, {rate:.1f} a second, starts"
                    f" {dict(proofs)}",
                    flush=True,
                )
    return 1 if failed else 0


def _numbers(words: list[str]) -> Iterator[int]:
    for word in words:
        first, _, last = word.partition("-")
        yield from range(int(first), int(last or first) + 1)


def one(seed: int) -> Verdict:
    """Run one seed in a folder of its own."""
    with scratch() as folder:
        return simulate(seed, folder)


def show(verdict: Verdict) -> None:
    """Print how a run ended."""
    print(
        f"seed {verdict.seed}: {'FAILED' if verdict.violation else 'ok'} {verdict.digest}"
        f" {verdict.operations} operations, {verdict.acknowledged} messages, ends"
        f" {dict(verdict.ends)}, starts {dict(verdict.proofs)}; {verdict.plan}",
        flush=True,
    )
    if verdict.violation:
        print(f"    {verdict.violation}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
