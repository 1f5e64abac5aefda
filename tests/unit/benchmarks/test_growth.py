"""What the growth benchmark makes of its figures: costs of a unit, steps, rows, the drawing."""

import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.runs.source_tree import ROOT
from support.waiting import until

from benchmarks.generator import LoadFailed
from benchmarks.growth.axis import Axis, Reading, Values
from benchmarks.growth.drawing import draw
from benchmarks.growth.found import Found, columns, document, figure, keep, missed, refusals, rows
from benchmarks.growth.lines import Kind, Line, costs, steps, verdict
from benchmarks.growth.server import Server
from benchmarks.growth.watching import Checkpoints, counted, disk_mb
from benchmarks.growth.wire import Wire
from benchmarks.reports.figures import Verdict
from benchmarks.targets import compiling

EACH = Line("cpu_us", "CPU us a message")
TOTAL = Line("memory_mb", "MB", Kind.TOTAL, further="KB a further topic", scale=1000)
SIZES = (10, 100, 1_000, 4_000)


def quiet(values: Mapping[int, float]) -> dict[int, list[float]]:
    """Return three rounds that differ by a hundredth."""
    return {size: [value * 0.995, value, value * 1.005] for size, value in values.items()}


def met(line: Line, values: Mapping[int, float]) -> bool:
    """Whether quiet rounds of these medians keep the line's bar."""
    said = verdict(line, quiet(values))
    assert said is not None
    return said.met


def test_a_cost_of_one_message_stays_flat() -> None:
    """What caches add passes, what grows with the size does not."""
    assert met(EACH, dict(zip(SIZES, (3.0, 3.1, 3.6, 5.0), strict=True)))
    assert not met(EACH, {size: 3 + size / 1000 for size in SIZES})


@pytest.mark.parametrize(
    ("power", "is_met"), [(0.5, True), (1.0, True), (1.5, False), (2.0, False)]
)
def test_totals_grow_no_faster_than_the_size(power: float, *, is_met: bool) -> None:
    """What is there at any size is no part of the cost of a unit."""
    assert met(TOTAL, {size: 50 + size**power for size in SIZES}) is is_met


def test_the_steepest_step_is_named() -> None:
    """With both sizes, how much a unit costs more, and how much may be."""
    said = verdict(EACH, quiet({10: 1.0, 100: 1.6, 1_000: 4.8}))
    assert said is not None
    assert said.text == "3.0x from 100 to 1,000 (at most 1.5x)"


def test_a_rise_that_rounds_share_is_noise() -> None:
    """As long as one round of the larger size is as cheap as one of the smaller."""
    rounds = {10: [1.0, 1.1, 2.0], 100: [1.9, 3.0, 3.1]}
    said = verdict(EACH, rounds)
    assert said is not None
    assert (said.met, said.text) == (True, "2.7x from 10 to 100, within the noise")
    rounds[100][0] = 2.1
    said = verdict(EACH, rounds)
    assert said is not None
    assert not said.met


def test_the_noise_of_both_sizes_counts_for_what_a_unit_adds() -> None:
    """Little more of a size cannot be told from the spread of the rounds."""
    first, second = costs(TOTAL, {10: [50, 50, 52], 20: [50, 51, 52], 1_010: [149, 150, 152]})
    assert (first.low, first.middle, first.high) == (-0.2, 0.1, 0.2)
    assert second.middle == pytest.approx(0.1)
    assert second.low == pytest.approx((149 - 52) / 990)


def test_less_than_the_resolution_is_nothing() -> None:
    """Two clocks that agree to the last tick are no reason to believe the next one."""
    line = Line("files", "open files", Kind.TOTAL, resolution=4)
    assert verdict(line, {10: [27], 100: [28], 400: [33]}) is not None
    assert all(step.noise for step in steps(line, {10: [27], 100: [28], 400: [33]}))


def test_nothing_is_said_without_two_costs() -> None:
    """Of rates, of one size, and of a total of two sizes."""
    assert verdict(Line("rate", "messages/s", Kind.SHOWN), quiet({10: 1, 100: 9})) is None
    assert verdict(EACH, quiet({10: 1})) is None
    assert verdict(TOTAL, quiet({10: 1, 100: 2})) is None
    assert steps(TOTAL, quiet({10: 5, 100: 4, 1_000: 3})) == []


def test_a_bar_of_the_figure_holds_at_every_size() -> None:
    """Whatever its steps: a rate that is only shown, and a total that grows as it may."""
    lacks = Line("lacks", "times", Kind.SHOWN, most=0)
    assert verdict(lacks, {1: [0, 0, 3], 2: [0, 0, 0]}) == Verdict(True, "0 at 1 (at most 0)")
    assert verdict(lacks, {1: [0], 2: [2]}) == Verdict(False, "2 at 2 (at most 0)")
    memory = Line("memory_mb", "MB", Kind.TOTAL, most=300)
    assert met(memory, {10: 50, 100: 60, 1_000: 160})
    assert not met(memory, {10: 50, 100: 80, 1_000: 380})


def test_small_steps_may_come_to_too_much() -> None:
    """The largest size is held against the smallest."""
    line = Line("cpu_us", "CPU us a message", span_most=2.0)
    assert met(line, {10: 3.0, 100: 4.0, 1_000: 5.9})
    said = verdict(line, {10: [3.0], 100: [4.2], 1_000: [6.1]})
    assert said == Verdict(False, "2.03x from 10 to 1,000 (at most 2x)")


def test_a_metric_is_summed_over_its_labels() -> None:
    """Not those whose names only begin alike, nor what is said of it."""
    text = '# HELP a_total b\na_total{x="1"} 2.0\na_total{x="2"} 1.0\na_total_more 9.0\n'
    assert counted(text, "a_total") == 3.0


def test_disk_space_is_what_has_blocks(tmp_path: Path) -> None:
    """Holes are none of it."""
    (tmp_path / "full").write_bytes(os.urandom(1 << 20))
    with (tmp_path / "empty").open("wb") as file:
        file.truncate(1 << 30)
        os.fsync(file.fileno())
    assert 1.0 <= disk_mb(tmp_path) < 2.0


async def test_checkpoints_are_counted_when_written(tmp_path: Path) -> None:
    """The first one, too, which makes the file."""
    fresh = tmp_path / "fresh"
    with Checkpoints(tmp_path) as written:

        def seen(count: int) -> bool:
            return written.count == count

        for number in (1, 2, 3):
            fresh.write_bytes(bytes(48))
            os.utime(fresh, ns=(number, number))
            fresh.replace(tmp_path / "checkpoint")
            await until(partial(seen, number), what="the checkpoint is seen")


class Small(Axis):
    """An axis of two lines that nobody measures."""

    name = "small"
    title = "A & B"
    unit = "things"
    sizes = quick = SIZES
    lines = (EACH, TOTAL, Line("rate", "messages/s", Kind.SHOWN))

    def grow(self, server: Server, before: int, size: int) -> Iterator[Values]:
        """Do nothing."""
        yield {}


@pytest.fixture
def found() -> Found:
    """Three rounds of two servers; ours pays more and more a message, and refuses the last size."""
    made = Found(Small())
    for turn in range(3):
        for size in SIZES[:3]:
            values = {"cpu_us": float(size), "memory_mb": 50 + size / 100, "rate": 1e6 - turn}
            made.add("Aerobee", Reading(size, values))
            made.add("RocketMQ", Reading(size, values | {"cpu_us": 20.0}))
    made.add("Aerobee", Reading(SIZES[3], {"memory_mb": 90.0}))
    made.add("Aerobee", Reading(SIZES[3], refused="at 9 of 16 queues: full"))
    return made


def test_rows_have_a_cell_for_each_size(found: Found) -> None:
    """Totals have a second row of what a unit adds; refused sizes say so."""
    assert columns(found) == ("things", "server", "10", "100", "1,000", "4,000", "growth")
    table = {(row[0], row[1]): row[2:] for row in rows(found)}
    assert table["CPU us a message", "Aerobee"] == (
        *("10", "100", "1,000", "refused"),
        "MISSED: 10.0x from 10 to 100 (at most 1.5x)",
    )
    assert table["CPU us a message", "RocketMQ"] == ("20", "20", "20", "", "no step above 1.0x")
    assert table["KB a further topic", "Aerobee"][:3] == ("", "10", "10")
    assert table["messages/s", "Aerobee"][0] == "999,999 (999,998 to 1,000,000)"
    assert list(refusals(found)) == ["Aerobee refused 4,000 things: at 9 of 16 queues: full"]
    assert list(missed(found)) == ["small: CPU us a message: 10.0x from 10 to 100 (at most 1.5x)"]


def test_figures_have_three_digits() -> None:
    """And thousands are told apart."""
    assert [figure(each) for each in (0.01234, 3.0, 99.94, 12_345.6)] == [
        *("0.0123", "3", "99.9", "12,346")
    ]


def test_axes_that_were_not_measured_stay(found: Found, tmp_path: Path) -> None:
    """A run of one axis replaces that one in the file of the day."""
    content = document([found], {"cpu": "Some CPU", "cpus": 2}, {})
    keep(tmp_path, content | {"axes": {"other": {}}})
    path, kept = keep(tmp_path, content)
    assert path.name == f"growth-{content['date'][:10]}-some-2-cpus.json"
    assert set(kept["axes"]) == {"other", "small"}
    assert kept == json.loads(path.read_text())


def test_a_drawing_has_a_line_for_each_cost(found: Found, tmp_path: Path) -> None:
    """Rates are left out, names escaped; the drawing is XML."""
    _, kept = keep(tmp_path, document([found], {"cpu": "A & B", "cpus": 2}, {}))
    tree = ElementTree.fromstring(draw(kept))
    kinds = [each.get("class") for each in tree.iter("{http://www.w3.org/2000/svg}path")]
    assert kinds == ["c0", "c0 theirs", "c1", "c1 theirs", "c0", "c1"]


def test_answers_are_counted_and_refusals_noticed() -> None:
    """Notices of the server are passed over; a code that is not 0 ends the run."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            for replies in (
                [{"flag": 0, "code": 40}, {"flag": 1, "code": 0}],
                [{"flag": 1, "code": 2}],
            ):
                connection.recv(65536)
                for reply in replies:
                    text = json.dumps(reply).encode()
                    connection.sendall(struct.pack(">II", 4 + len(text), len(text)) + text)

    server = threading.Thread(target=serve)
    server.start()
    wire = Wire(f"127.0.0.1:{listener.getsockname()[1]}")
    try:
        wire.open(1)
        wire.send(0, wire.frame(34, {}))
        wire.take(1)
        wire.send(0, wire.frame(34, {}))
        with pytest.raises(LoadFailed, match="refused with 2"):
            wire.take(1)
    finally:
        wire.close()
        listener.close()
        server.join()


def test_an_axis_is_measured_from_end_to_end(tmp_path: Path) -> None:
    """A row of each kind, whatever the verdict of a moment on a busy machine."""
    try:
        compiling.load_generator()
    except compiling.ToolMissing as error:
        pytest.skip(str(error))
    words = ["--quick", "--only", "batches", "--seconds", "0.05", "--dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth", *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'tests'}"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert "| messages a batch" in done.stdout
    assert "CPU us a message" in done.stdout
    assert "refused" not in done.stdout
    assert "nothing is known" not in done.stdout
