"""Stores that live through what their disks have in store, and keep what was promised.

DISK_SEEDS says how many seeds are run (60), DISK_SEED names a single one.
"""

import os
from typing import Final

import pytest

from simulation.disk.folders import scratch
from simulation.disk.run import simulate

SEEDS: Final = int(os.environ.get("DISK_SEEDS", "60"))
SEEDS_AT_A_TIME: Final = 20


def stretches() -> list[range]:
    """Return the seeds to run, a few to a test."""
    if one := os.environ.get("DISK_SEED"):
        return [range(int(one), int(one) + 1)]
    return [
        range(first, min(first + SEEDS_AT_A_TIME, SEEDS))
        for first in range(0, SEEDS, SEEDS_AT_A_TIME)
    ]


@pytest.mark.parametrize("seeds", stretches(), ids=lambda seeds: f"from-{seeds[0]}")
def test_what_was_promised_is_kept_on_any_disk(seeds: range) -> None:
    """No oracle finds anything, see README.md; a seed that fails says how it is run again."""
    failed = []
    for seed in seeds:
        with scratch() as folder:
            verdict = simulate(seed, folder)
        if verdict.violation:
            failed.append(
                f"run it again: PYTHONPATH=tests .venv/bin/python -m simulation.disk -v {seed}\n"
                f"{verdict.plan}\n{verdict.violation}"
            )
    if failed:
        pytest.fail("\n\n".join(failed), pytrace=False)
