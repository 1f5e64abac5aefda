"""What the hand-over benchmark holds each run to."""

from benchmarks.handover import AEROBEE, ROCKETMQ, Results, plan, verdicts
from benchmarks.handover_runs import GO, JAVA, OURS, PUSH, Run
from benchmarks.handover_tally import Outcome, Pauses


def outcome(*, twice: int = 0, lost: int = 0) -> Outcome:
    """Return the outcome of a run of a thousand messages."""
    return Outcome(1_000, 1_000 - lost + twice, twice, lost, Pauses(0, 0, 0, 0))


def test_nothing_may_be_lost_and_nothing_of_ours_come_twice() -> None:
    """Go's members may have something twice, ours not; nobody may lose anything."""
    ours, go = Run(PUSH, OURS, AEROBEE, 4, 1.0), Run(PUSH, GO, AEROBEE, 4, 1.0)
    results: Results = {ours: outcome(twice=1), go: outcome(twice=1, lost=1)}
    assert [verdict.met for verdict in verdicts(ours, results)] == [True, False]
    assert [verdict.met for verdict in verdicts(go, results)] == [False]


def test_java_is_held_to_a_tenth_of_what_rocketmq_repeats() -> None:
    """A tenth is still met, more is not; RocketMQ itself has no bar."""
    here, there = Run(PUSH, JAVA, AEROBEE, 4, 1.0), Run(PUSH, JAVA, ROCKETMQ, 4, 1.0)
    for twice, met in ((10, True), (11, False)):
        results: Results = {here: outcome(twice=twice), there: outcome(twice=100, lost=3)}
        assert [verdict.met for verdict in verdicts(here, results)] == [True, met]
        assert verdicts(there, results) == []


def test_java_meets_both_brokers_in_every_plan() -> None:
    """Whatever is measured with Java's members here is measured on RocketMQ as well."""
    for quick in (True, False):
        runs = plan(quick=quick)
        here = [run.scenario for run in runs if run.client is JAVA and run.server == AEROBEE]
        there = [run.scenario for run in runs if run.client is JAVA and run.server == ROCKETMQ]
        assert here == there != []
