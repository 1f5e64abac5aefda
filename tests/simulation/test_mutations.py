"""A test of the tester: faults of brokers and clients that are put back are found by clusters.

With SIMULATION_SEEDS, as in `make seeds`, all of them; else some.
"""

import os
from pathlib import Path
from typing import Final

import pytest

from simulation.mutations import MUTATIONS, Mutation
from simulation.plan import draw
from simulation.scenario import simulate

SEEDS: Final = 400
TRIED: Final = MUTATIONS if os.environ.get("SIMULATION_SEEDS") else MUTATIONS[1::3]  # quick ones


@pytest.mark.parametrize("mutation", TRIED, ids=lambda each: each.name.replace(" ", "-"))
def test_a_fault_is_found_by_few_seeds(mutation: Mutation, tmp_path: Path) -> None:
    """The seed that found it before is tried, then plans that are likely to show it."""
    likely = [seed for seed in range(SEEDS) if mutation.likely(draw(seed))]
    order = [mutation.seed, *(seed for seed in likely if seed != mutation.seed)]
    for tried, seed in enumerate(order, 1):
        with mutation.active():
            verdict = simulate(seed, tmp_path / str(seed))
        found = [each for each in verdict.violations if mutation.word in each.what]
        if found:
            print(f"{mutation.name}: found by seed {seed}, the {tried}. tried: {found[0]}")
            assert found[0].kind in mutation.kinds, found[0]
            return
    pytest.fail(f"{len(order)} seeds did not find: {mutation.name}")
