"""Run seeds by hand: `PYTHONPATH=tests python -m simulation [-v] SEED [SEED ...]`, or FROM-TO."""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from simulation.judge.ledger import Kind
from simulation.scenario import simulate

SHOWN: Final = 3  # violations of one kind


def main() -> int:
    """Run the seeds that the command line names; return how many failed."""
    words = sys.argv[1:]
    echo = print if "-v" in words else None
    failed = 0
    for word in words:
        first, _, last = word.partition("-")
        if not first.isdecimal():
            continue
        for seed in range(int(first), int(last or first) + 1):
            began_s = time.process_time()
            with tempfile.TemporaryDirectory(prefix="simulation-") as folder:
                verdict = simulate(seed, Path(folder), echo)
            print(
                f"seed {seed}: {'FAILED' if verdict.violations else 'ok'} {verdict.digest}"
                f" {time.process_time() - began_s:.1f} s for {verdict.virtual_s:.0f} s,"
                f" {verdict.acknowledged} messages, {verdict.duplicates} twice,"
                f" {verdict.events} events; {verdict.plan}",
                flush=True,
            )
            shown: Counter[Kind] = Counter()
            for violation in verdict.violations:
                shown[violation.kind] += 1
                if shown[violation.kind] <= SHOWN:
                    print(f"    {violation}", flush=True)
            if shown:
                print(f"    {', '.join(f'{kind.name} {n}' for kind, n in shown.items())}")
            failed += bool(verdict.violations)
    return failed


if __name__ == "__main__":
    sys.exit(min(main(), 100))
