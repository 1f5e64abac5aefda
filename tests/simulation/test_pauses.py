"""The default of handoverDrainMillis: for how long queues rest, and what comes twice.

With SIMULATION_SEEDS, as in `make seeds`, of every case; else of those that show most.
"""

import os
from pathlib import Path

import pytest

from aerobee.broker.settings.keys import BrokerSettings
from simulation.pauses import (
    ALL_SLOW,
    QUICK,
    SECOND,
    SLOW,
    Handlers,
    measure,
    measure_backlog,
)

LIMIT_MS = BrokerSettings().handover_drain_millis
PAUSE_MS_MAX = 2000.0
CHANGES = 12
ALL = bool(os.environ.get("SIMULATION_SEEDS"))
SEEDS = range(1, 7) if ALL else range(1, 2)
OF_WORST = 5  # rests, of ninety in a run, that one move has
HANDLED = {"quick": (QUICK, 1), "a second": (SECOND, 1), "a slow pull": (SECOND, 5)}
SHOW_MOST = {"quick", "a slow pull"}
BACKLOGS = [(6.0, 1.3), (1.25, 0.4), (10.0, 1.0)]


@pytest.mark.parametrize(
    ("handlers", "seed"),
    [pytest.param(*case, id=name) for name, case in HANDLED.items() if ALL or name in SHOW_MOST],
)
def test_nothing_comes_twice_where_handlers_take_up_to_a_second(
    tmp_path: Path, handlers: Handlers, seed: int
) -> None:
    """Java consumers finish what they have fetched before they hear that their group changed.

    With seed 5 a pull that shows what is unfinished is long on its way.
    """
    cost = measure(handlers, LIMIT_MS, tmp_path, seed=seed, changes=CHANGES)
    assert (cost.twice, cost.lost) == (0, 0)


@pytest.mark.parametrize(("backlog_s", "join_after_s"), BACKLOGS if ALL else BACKLOGS[:1])
def test_a_group_that_works_off_a_backlog_finishes_first(
    tmp_path: Path, backlog_s: float, join_after_s: float
) -> None:
    """Its messages are old, its handlers quick: they are waited for, now and in every later change.

    Also for longer than the limit, and where queues are taken while others rest.
    """
    cost = measure_backlog(
        SECOND, LIMIT_MS, tmp_path, backlog_s=backlog_s, join_after_s=join_after_s
    )
    assert (cost.twice, cost.lost) == (0, 0)


@pytest.mark.parametrize(
    "handlers", [SLOW, ALL_SLOW] if ALL else [ALL_SLOW], ids=lambda each: each.name
)
def test_handlers_of_five_seconds_stop_nobody_for_long(tmp_path: Path, handlers: Handlers) -> None:
    """A group whose handlers cannot end in time goes on; what was under way comes twice.

    But for the worst move of all runs, each rest is short: of six runs, or of one.
    """
    pauses: list[float] = []
    for seed in SEEDS:
        cost = measure(handlers, LIMIT_MS, tmp_path / str(seed), seed=seed, changes=CHANGES)
        assert cost.lost == 0, f"seed {seed}"
        pauses += cost.pauses
    assert sorted(pauses)[-1 - OF_WORST] <= PAUSE_MS_MAX
