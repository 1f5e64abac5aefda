"""A seed of the disk is a run: the same operations again, in this process and in any other."""

from typing import Final

from support.runs.hash_seeds import digests_elsewhere

from simulation.disk.folders import scratch
from simulation.disk.plan import Trouble, draw
from simulation.disk.run import Verdict, simulate

SEEDS: Final = (4, 11)  # with and without power losses, both of many troubles


def run(seed: int) -> Verdict:
    """Run a seed."""
    with scratch() as folder:
        return simulate(seed, folder)


def test_a_seed_runs_the_same_twice() -> None:
    """Every operation of the door, and every completion, comes in the same order."""
    for seed in SEEDS:
        first, second = run(seed), run(seed)
        assert first == second
        assert first.operations > 100
    assert run(SEEDS[0]).digest != run(SEEDS[1]).digest


def test_plans_differ() -> None:
    """Each trouble, both flush modes and runs without trouble are among the first seeds."""
    plans = [draw(seed) for seed in range(40)]
    assert set(Trouble) == {trouble for plan in plans for trouble in plan.troubles}
    assert {plan.flush for plan in plans} == {"SYNC_FLUSH", "ASYNC_FLUSH"}
    assert any(not plan.troubles for plan in plans)


def test_hash_seeds_do_not_matter() -> None:
    """Nothing depends on the order of a set: two processes hash texts differently."""
    for seed in SEEDS:
        assert digests_elsewhere("simulation.disk", seed) == {run(seed).digest}
