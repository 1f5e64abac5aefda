"""A seed is a run: the same trace again, in this process and in any other."""

from pathlib import Path
from typing import Final

import pytest
from support.runs.hash_seeds import digests_elsewhere

from simulation.plan import Trouble, draw
from simulation.scenario import Verdict, simulate

OPEN_FILES: Final = Path("/proc/self/fd")
SEED: Final = 155  # of many troubles, and quick


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    """The seed's run, to which others are held."""
    return simulate(SEED, tmp_path_factory.mktemp("first"))


def test_a_seed_runs_the_same_twice(first: Verdict, tmp_path: Path) -> None:
    """Every byte that a process reads and every handler's call comes at the same virtual time."""
    assert len(draw(SEED).troubles) > 3 and draw(SEED).disk
    open_files = len(list(OPEN_FILES.iterdir()))
    second = simulate(SEED, tmp_path)
    assert first.lines == second.lines
    assert first.events > 1000
    assert (first.digest, first.events, first.turns) == (second.digest, second.events, second.turns)
    assert len(list(OPEN_FILES.iterdir())) <= open_files, "many seeds run in one process"


def test_other_seeds_run_otherwise(first: Verdict, tmp_path: Path) -> None:
    """The seed matters, to the plan and to the trace; every trouble is some seed's."""
    assert first.digest != simulate(SEED + 1, tmp_path).digest
    assert set(Trouble) == {each for seed in range(20) for each in draw(seed).troubles}


def test_hash_seeds_do_not_matter(first: Verdict) -> None:
    """Nothing depends on the order of a set: two processes hash texts differently."""
    assert digests_elsewhere("simulation", SEED) == {first.digest}
