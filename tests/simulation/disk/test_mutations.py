"""A test of the tester: faults that the store once had are found when they are put back."""

from typing import Final

import pytest

from simulation.disk.folders import scratch
from simulation.disk.mutations import MUTATIONS, Mutation
from simulation.disk.plan import draw
from simulation.disk.run import simulate

SEEDS: Final = 200


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name.replace(" ", "-"))
def test_a_fault_is_found_within_the_seeds_of_make_test(mutation: Mutation) -> None:
    """Each of them fails one of the first seeds; the likely ones are tried first."""
    order = sorted(range(SEEDS), key=lambda seed: (not mutation.likely(draw(seed)), seed))
    for tried, seed in enumerate(order, 1):
        with mutation.active(), scratch() as folder:
            verdict = simulate(seed, folder)
        if verdict.violation:
            print(f"{mutation.name}: found by seed {seed}, the {tried}. tried: {verdict.violation}")
            assert verdict.kind in mutation.kinds, verdict.violation
            return
    pytest.fail(f"{SEEDS} seeds did not find: {mutation.name}")
