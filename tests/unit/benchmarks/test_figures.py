"""The arithmetic of the reports: medians, ratios of pairs, bars."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import results
from benchmarks.generator import Measurement
from benchmarks.loads import FEW_LAST, LOADS, Bar
from benchmarks.reports.charts import draw
from benchmarks.reports.figures import (
    beside_verdict,
    middle,
    own_verdicts,
    ratio,
    spread,
    start_verdicts,
    syncs_per_second,
    verdicts,
)
from benchmarks.reports.report import load_rows, markdown, missed
from benchmarks.reports.rounds import Report, is_flat


def measured(
    per_second: float, cpu_us: float = 5.0, p50_us: float = 100.0, **more: Any
) -> Measurement:
    """Return a run of one second."""
    values = {
        "messages": int(per_second),
        "seconds": 1.0,
        "generator_us": 0.5,
        "p99_us": 2 * p50_us,
        "p999_us": 3 * p50_us,
        "max_us": 4 * p50_us,
        "syncs": 2,
    }
    return Measurement(per_second=per_second, cpu_us=cpu_us, p50_us=p50_us, **(values | more))


def test_ratios_are_of_pairs() -> None:
    """A slow round slows both: the ratio of medians would be 4, the median of ratios is 5."""
    ours = [measured(100), measured(500), measured(400)]
    theirs = [measured(20), measured(100), measured(100)]
    assert ratio(ours, theirs, "per_second") == 5.0
    assert middle(ours, "per_second") == 400.0
    assert spread(ours, "per_second") == 1.0


def test_rounds_without_a_partner_are_refused() -> None:
    """Runs that do not come in pairs cannot be compared."""
    with pytest.raises(ValueError, match="shorter"):
        ratio([measured(1), measured(2)], [measured(1)], "per_second")


def test_syncs_per_second_need_to_be_counted() -> None:
    """Where syncs cannot be counted there is no figure, not zero."""
    assert syncs_per_second([measured(1, syncs=2), measured(1, syncs=4, seconds=2.0)]) == 2.0
    assert syncs_per_second([measured(1, syncs=None)]) is None


@pytest.mark.parametrize(
    ("rate", "cpu", "p50", "met"),
    [(400, 1.0, 50, (True, True, True)), (399, 1.1, 51, (False, False, False))],
)
def test_bars(rate: float, cpu: float, p50: float, met: tuple[bool, ...]) -> None:
    """Each bar is met at its value and missed just beside it."""
    bar = Bar(rate_least=4, cpu_most=1 / 5, p50_most=1 / 2)
    found = verdicts(bar, [measured(rate, cpu, p50)], [measured(100, 5.0, 100)])
    assert tuple(verdict.met for verdict in found) == met


def test_start_bars() -> None:
    """0.35 s and 50 MB are too much."""
    assert [verdict.met for verdict in start_verdicts([0.34, 0.3, 9.0], 49_000_000)] == [True, True]
    assert [verdict.met for verdict in start_verdicts([0.35], 50_000_000)] == [False, False]


def test_own_bars() -> None:
    """A rate and a tail of our own are met at their value and missed just beside it."""
    bar = Bar(per_second_least=400_000, p99_us_most=800)
    good, bad = measured(400_000, p99_us=800), measured(399_999, p99_us=801)
    assert [verdict.met for verdict in own_verdicts(bar, [good])] == [True, True]
    assert [verdict.met for verdict in own_verdicts(bar, [bad])] == [False, False]
    assert own_verdicts(Bar(), [bad]) == []


@pytest.mark.parametrize(
    ("cpu_us", "flat"),
    [
        ([10.0, 10.0], False),
        ([90.0, 40.0, 21.0, 20.0, 20.0], True),
        ([22.0, 20.0, 20.0], True),
        ([22.1, 20.0, 20.0], False),
        ([20.0, 20.0, 20.0, 30.0], False),
    ],
)
def test_a_server_is_warm_when_its_cpu_is_flat(cpu_us: list[float], flat: bool) -> None:
    """The last three windows lie within a tenth of their median; what came before is no matter."""
    assert is_flat(cpu_us) is flat


def test_a_drawing_has_a_bar_for_each_server(report: Report) -> None:
    """Names are escaped, bars as long as the medians say, and the drawing is XML."""
    machine = {"cpu": "A & B", "cpus": 2}
    drawn = draw(results.document(report, machine, {"load_average_before": 0.1}))
    bars = [
        float(each.get("width", "0"))
        for each in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}rect")
    ]
    assert bars == [420.0, 84.0, 283.5]
    assert "160,000 msg/s, 7.0 us of CPU each" in drawn


@pytest.fixture
def report() -> Report:
    """One load, measured against three servers; two bars are missed."""
    cell = {
        "Aerobee": [measured(160_000, 7.0)],
        "RocketMQ": [measured(32_000, 30.0)],
        "Redis Streams": [measured(108_000, 8.0)],
    }
    return Report(
        cells={("send-1x64", FEW_LAST.label): cell},
        starts={"Aerobee": [0.3]},
        anonymous_bytes={"Aerobee": 40_000_000},
    )


def test_rows_compare_every_server_with_ours(report: Report) -> None:
    """The row of each other server holds our ratio to it and whether that is enough."""
    rows = list(load_rows(LOADS[0], report))
    assert [row[2] for row in rows] == ["Aerobee", "RocketMQ", "Redis Streams"]
    assert rows[0][-1].startswith("MISSED: 160,000 msg/s (at least 400,000); met: p99 200 us")
    assert rows[1][-2].startswith("5.0x msg/s, 0.23x CPU")
    assert rows[1][-1] == "met: 5.0x msg/s (at least 4x); MISSED: 0.23x CPU (at most 0.20x)"
    assert rows[2][-1] == "met: more msg/s"
    assert len(missed(report)) == 2


def test_markdown_columns_stand_under_each_other() -> None:
    """Every line of a table is as long as the first."""
    lines = list(markdown(("load", "msg/s"), [("1 x 64", "1"), ("a", "1,000,000")]))
    assert len({len(line) for line in lines}) == 1
    assert lines[1].startswith("| ----")


def test_results_are_kept_with_their_machine(report: Report, tmp_path: Path) -> None:
    """The file is named after date and machine and holds every round."""
    machine = {"cpu": "Intel(R) Xeon(R) CPU E5 @ 2.2GHz", "cpus": 2}
    document = results.document(report, machine, {"load_average_before": 0.1})
    path = results.write(tmp_path / "results", document)
    assert path.name == f"{document['date'][:10]}-intel-xeon-e5-2-cpus.json"
    kept = json.loads(path.read_text())
    assert kept["loads"][0]["servers"]["RocketMQ"][0]["per_second"] == 32_000


def test_a_change_may_cost_a_fiftieth() -> None:
    """Our CPU per message is held against that of another checkout, round by round."""
    before = [measured(100, cpu_us=10.0), measured(100, cpu_us=20.0)]
    dear = [measured(100, cpu_us=10.3), measured(100, cpu_us=20.6)]
    assert beside_verdict([measured(90, cpu_us=10.1), measured(90, cpu_us=20.2)], before).met
    assert not beside_verdict(dear, before).met
