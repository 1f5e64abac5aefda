"""Clusters that live through what their seeds have in store, and keep what was promised.

SIMULATION_SEEDS says how many seeds are run, and with them MORE and those that failed once, as in
`make seeds`; SIMULATION_SEED names a single one; else it is USUAL.
"""

import os
from pathlib import Path
from typing import Final

import pytest

from simulation.plan import Kind, Trouble, draw
from simulation.scenario import simulate

LINES_SHOWN: Final = 60
USUAL: Final = (56, 77, 79, 82, 174)  # short ones that have everything between them
MORE: Final = (*USUAL, 62, 76, 155, 175)
FAILED_ONCE: Final = (5130,)  # a broker died while a topic was made, and got no queues of it


def seeds() -> list[int]:
    """Return the seeds to run."""
    if one := os.environ.get("SIMULATION_SEED"):
        return [int(one)]
    if count := os.environ.get("SIMULATION_SEEDS"):
        return list(dict.fromkeys([*range(int(count)), *MORE, *FAILED_ONCE]))
    return [*USUAL]


def test_the_usual_seeds_have_everything() -> None:
    """Each trouble, kind of consumer and of message is some seed's, and some seed is without."""
    plans = [draw(seed) for seed in USUAL]
    assert {trouble for plan in plans for trouble in plan.troubles} == set(Trouble)
    assert {group.kind for plan in plans for group in plan.groups} == set(Kind)
    assert {plan.flush for plan in plans} == {"ASYNC_FLUSH", "SYNC_FLUSH"}
    for trait in ("grows", "shared", "delays", "times", "transactions", "once", "disk", "troubles"):
        assert {bool(getattr(plan, trait)) for plan in plans} == {True, False}, trait


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
