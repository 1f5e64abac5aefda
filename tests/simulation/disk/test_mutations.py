"""A test of the tester: faults that the store once had are found when they are put back."""

from typing import Final

import pytest

from simulation.disk.folders import scratch
from simulation.disk.mutations import MUTATIONS, Mutation
from simulation.disk.plan import draw
from simulation.disk.run import simulate

SEEDS: Final = 200


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name.replace(" ", "-"))
def test_a_fault_is_found_by_few_seeds(mutation: Mutation) -> None:
    """The seed that found it before is tried first, then the likely ones, then all others."""

    def rank(seed: int) -> tuple[bool, bool, int]:
        return seed != mutation.seed, not mutation.likely(draw(seed)), seed

    order = sorted(range(SEEDS), key=rank)
    for tried, seed in enumerate(order, 1):
        with mutation.active(), scratch() as folder:
            verdict = simulate(seed, folder)
        if verdict.violation:
            print(f"{mutation.name}: found by seed {seed}, the {tried}. tried: {verdict.violation}")
            assert verdict.kind in mutation.kinds, verdict.violation
            return
    pytest.fail(f"{SEEDS} seeds did not find: {mutation.name}")
