"""Run seeds by hand: `PYTHONPATH=tests python -m simulation.disk [-v] SEED [SEED ...]`, or A-B."""

import sys
import time
from collections import Counter

from simulation.disk.folders import scratch
from simulation.disk.run import simulate


def main() -> int:
    """Run the seeds that the command line names; return how many failed."""
    words = sys.argv[1:]
    echo = print if "-v" in words else None
    failed, proofs, count, began_s = 0, Counter[str](), 0, time.process_time()
    for word in words:
        first, _, last = word.partition("-")
        if not first.isdecimal():
            continue
        for seed in range(int(first), int(last or first) + 1):
            with scratch() as folder:
                verdict = simulate(seed, folder, echo)
            count += 1
            proofs += verdict.proofs
            failed += bool(verdict.violation)
            state = "FAILED" if verdict.violation else "ok"
            if verdict.violation or first == last or not last:
                print(
                    f"seed {seed}: {state} {verdict.digest} {verdict.operations} operations,"
                    f" {verdict.acknowledged} messages, starts {dict(verdict.proofs)};"
                    f" {verdict.plan}\n    {verdict.violation}",
                    flush=True,
                )
    seconds = time.process_time() - began_s
    print(f"{count} seeds in {seconds:.1f} s of CPU, {failed} failed, starts by {dict(proofs)}")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(), 100))
