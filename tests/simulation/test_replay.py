"""A seed is a run: the same trace again, in this process and in any other."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from support.source_tree import ROOT

from simulation.plan import Trouble, draw
from simulation.scenario import simulate

SEED: Final = 7


def test_a_seed_runs_the_same_twice(tmp_path: Path) -> None:
    """Every byte that a process reads and every handler's call comes at the same virtual time."""
    assert len(draw(SEED).troubles) > 3
    first, second = (simulate(SEED, tmp_path / name) for name in ("one", "two"))
    assert first.lines == second.lines
    assert first.events > 1000
    assert (first.digest, first.events, first.turns) == (second.digest, second.events, second.turns)


def test_other_seeds_run_otherwise(tmp_path: Path) -> None:
    """The seed matters, to the plan and to the trace; every trouble is some seed's."""
    assert simulate(SEED, tmp_path / "one").digest != simulate(SEED + 1, tmp_path / "two").digest
    assert set(Trouble) == {each for seed in range(20) for each in draw(seed).troubles}


def test_hash_seeds_do_not_matter(tmp_path: Path) -> None:
    """Nothing depends on the order of a set: two processes hash texts differently."""
    digests = set()
    for hash_seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT / "tests")}
        done = subprocess.run(
            [sys.executable, "-m", "simulation", str(SEED)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        words = done.stdout.split()
        assert words[:2] == ["seed", f"{SEED}:"], done.stderr
        digests.add(words[3])
    assert digests == {simulate(SEED, tmp_path).digest}
