"""A test of the tester: faults of brokers that are put back are found by clusters."""

from pathlib import Path
from typing import Final

import pytest

from aerobee.storage.delay_progress import DelayProgress
from simulation.ledger import Kind
from simulation.plan import draw
from simulation.scenario import simulate

SEEDS: Final = 60


def test_deliveries_that_the_log_proves_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else delayed messages come twice after a power loss: the note is older than the log."""
    monkeypatch.setattr(DelayProgress, "_take_delivered", lambda self, begin, end: None)
    likely = [seed for seed in range(SEEDS) if draw(seed).delays and draw(seed).disk]
    for tried, seed in enumerate(likely, 1):
        verdict = simulate(seed, tmp_path / str(seed))
        found = [each for each in verdict.violations if "the delayed message" in each.what]
        if found:
            print(f"found by seed {seed}, the {tried}. tried: {found[0]}")
            assert found[0].kind is Kind.TWICE
            return
    pytest.fail(f"{len(likely)} seeds did not find it")
