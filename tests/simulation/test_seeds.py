"""Clusters that live through what their seeds have in store, and keep what was promised.

SIMULATION_SEEDS says how many seeds are run (10), SIMULATION_SEED names a single one.
"""

import os
from pathlib import Path
from typing import Final

import pytest

from simulation.scenario import simulate

LINES_SHOWN: Final = 60
FAILED_ONCE: Final = (5130,)  # a broker died while a topic was made, and got no queues of it


def seeds() -> list[int]:
    """Return the seeds to run."""
    if one := os.environ.get("SIMULATION_SEED"):
        return [int(one)]
    return [*range(int(os.environ.get("SIMULATION_SEEDS", "10"))), *FAILED_ONCE]


@pytest.mark.parametrize("seed", seeds())
def test_what_was_promised_is_kept(seed: int, tmp_path: Path) -> None:
    """No invariant of the ledger is broken, see README.md; the trace of a failure is shown."""
    verdict = simulate(seed, tmp_path)
    assert verdict.acknowledged, "messages were sent"
    if verdict.violations:
        print("\n".join(verdict.lines[-LINES_SHOWN:]))
        pytest.fail(
            f"run it again: SIMULATION_SEED={seed} .venv/bin/python -m pytest"
            f" tests/simulation/test_seeds.py\n{verdict.plan}\n"
            + "\n".join(str(violation) for violation in verdict.violations[:20]),
            pytrace=False,
        )
