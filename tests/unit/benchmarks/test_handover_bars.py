"""What the hand-over benchmark holds each run to, and what it keeps of runs that fail."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.interop.peers import PeerFailed

from benchmarks.handovers import handover
from benchmarks.handovers.handover import plan
from benchmarks.handovers.handover_report import AEROBEE, ROCKETMQ, Results, verdicts
from benchmarks.handovers.handover_runs import FIVE, GO, JAVA, LITE, OURS, PUSH, SLOW, Run
from benchmarks.handovers.handover_tally import Outcome, Pauses
from benchmarks.targets import compiling


def outcome(*, twice: int = 0, lost: int = 0, joins_ms: float = 0) -> Outcome:
    """Return the outcome of a run of a thousand messages."""
    pauses, joins = Pauses(0, 0, 0, 0), Pauses(1, joins_ms, joins_ms, joins_ms)
    return Outcome(1_000, 1_000 - lost + twice, twice, lost, pauses, joins)


def test_nothing_may_be_lost_and_nothing_of_ours_come_twice() -> None:
    """Go's members may have something twice, ours not; nobody may lose anything."""
    ours, go = Run(PUSH, OURS, AEROBEE, 4, 1.0), Run(PUSH, GO, AEROBEE, 4, 1.0)
    results: Results = {ours: outcome(twice=1), go: outcome(twice=1, lost=1)}
    assert [verdict.met for verdict in verdicts(ours, results)] == [True, False]
    assert [verdict.met for verdict in verdicts(go, results)] == [False]


def test_java_is_held_to_a_tenth_of_what_rocketmq_repeats() -> None:
    """For lite pull: a tenth is still met, more is not; RocketMQ itself has no bar."""
    here, there = Run(LITE, JAVA, AEROBEE, 4, 1.0), Run(LITE, JAVA, ROCKETMQ, 4, 1.0)
    for twice, met in ((10, True), (11, False)):
        results: Results = {here: outcome(twice=twice), there: outcome(twice=100, lost=3)}
        assert [verdict.met for verdict in verdicts(here, results)] == [True, met]
        assert verdicts(there, results) == []


def test_queues_of_java_rest_for_two_seconds_and_repeat_nothing_of_prompt_handlers() -> None:
    """Where handlers last longer than queues may rest, some messages come twice: the trade."""
    prompt, slow = Run(PUSH, JAVA, AEROBEE, 4, 1.0), Run(FIVE, JAVA, AEROBEE, 4, 1.0)
    results: Results = {run: outcome(twice=1, joins_ms=2_001) for run in (prompt, slow)}
    assert [verdict.met for verdict in verdicts(prompt, results)] == [True, False, False]
    assert [verdict.met for verdict in verdicts(slow, results)] == [True, False]
    results = {prompt: outcome(joins_ms=2_000), slow: outcome(twice=1, joins_ms=2_000)}
    assert all(verdict.met for run in results for verdict in verdicts(run, results))


def test_members_that_fall_behind_rest_no_longer_than_on_rocketmq() -> None:
    """What they have fetched has to be worked off first, on any broker."""
    here, there = Run(SLOW, JAVA, AEROBEE, 4, 1.0), Run(SLOW, JAVA, ROCKETMQ, 4, 1.0)
    for joins_ms, met in ((9_000, True), (9_001, False)):
        results: Results = {here: outcome(joins_ms=joins_ms), there: outcome(joins_ms=9_000)}
        assert [verdict.met for verdict in verdicts(here, results)] == [True, met]


def test_java_meets_both_brokers_in_every_plan() -> None:
    """Whatever is measured with Java's members here is measured on RocketMQ as well."""
    for quick in (True, False):
        runs = plan(quick=quick)
        here = [run.scenario for run in runs if run.client is JAVA and run.server == AEROBEE]
        there = [run.scenario for run in runs if run.client is JAVA and run.server == ROCKETMQ]
        assert here == there != []


def failing(failures: int) -> Callable[[Run, object], Outcome]:
    """Return a measurement whose programs fail so often before they work."""
    left = iter(range(failures))

    def measured(run: Run, note: object) -> Outcome:
        if next(left, None) is not None:
            raise PeerFailed("too slow")
        return outcome()

    return measured


def kept_of(
    folder: Path, monkeypatch: pytest.MonkeyPatch, failures: int, only: str
) -> dict[str, list[object]]:
    """Run one scenario of the quick plan; return what is kept: titles, and failures."""
    monkeypatch.setattr(handover, "measure", failing(failures))
    monkeypatch.setattr(compiling, "BUILD", folder)
    status = handover.main(["--quick", "--only", only])
    (file,) = (folder / "results").iterdir()
    content = json.loads(file.read_text())
    assert bool(status) == bool(content["failures"])
    return {"runs": [run["title"] for run in content["runs"]], "failures": [*content["failures"]]}


def test_a_run_whose_programs_fail_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once; what fails twice is named, and what the day had before stays."""
    go, java = f"{PUSH.name}, {GO} on {AEROBEE}", f"{PUSH.name}, {JAVA} on {ROCKETMQ}"
    assert kept_of(tmp_path, monkeypatch, 1, "go") == {"runs": [go], "failures": []}
    assert kept_of(tmp_path, monkeypatch, 2, "on rocketmq") == {"runs": [go], "failures": [java]}
    assert kept_of(tmp_path, monkeypatch, 0, "on rocketmq") == {"runs": [go, java], "failures": []}
    assert kept_of(tmp_path, monkeypatch, 2, "go") == {"runs": [java], "failures": [go]}


def test_what_was_measured_is_shown_when_the_bench_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a signal, or an error that nobody thought of."""

    def measured(run: Run, note: object) -> Outcome:
        if run.client is GO:
            raise KeyboardInterrupt
        return outcome(twice=7)

    monkeypatch.setattr(handover, "measure", measured)
    monkeypatch.setattr(compiling, "BUILD", tmp_path)
    with pytest.raises(KeyboardInterrupt):
        handover.main(["--quick"])
    assert "7 twice (0)" in capsys.readouterr().out
    assert len(list((tmp_path / "results").iterdir())) == 1
