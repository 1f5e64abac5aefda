"""The comparison of clients: its bars, its tables and drawing, and what each program checks."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.clients.figures import Measured, Report, missed, verdicts
from benchmarks.clients.program import Order as Given
from benchmarks.clients.programs import meter
from benchmarks.clients.report import columns, document, draw, rows, write
from benchmarks.clients.table import CLIENTS, CONFLUENT, LOADS, OURS, RIVALS, unobtainable
from benchmarks.clients.turns import Plan, warm_lines
from benchmarks.generator import Sample
from benchmarks.targets import compiling
from benchmarks.targets.target import Cpus

MACHINE = {"cpu": "AMD EPYC", "cpus": 2}
BODIES = meter.Bodies(bytes(at % 255 + 1 for at in range(0x10000 + 1024)))


def run(per_second: float, **more: Any) -> Measured:
    """Return a run of one second."""
    values: dict[str, Any] = {"cpu_us": 2.0, "server_us": 3.0}
    return Measured(int(per_second), 1.0, per_second, **(values | more))


def report(**loads: Mapping[str, list[Measured]]) -> Report:
    """Return what was measured; a load's name has `_` for `-`."""
    return Report(cells={name.replace("_", "-"): dict(cell) for name, cell in loads.items()})


def texts(load: str, found: Report) -> dict[str, bool]:
    """Return whether each bar of a load is met."""
    return {verdict.text: verdict.met for verdict in verdicts(load, found)}


def test_sending_is_ahead_of_everybody_round_by_round() -> None:
    """The median of the rounds' ratios counts, against each rival; our own elsewhere is none."""
    found = report(
        send={
            OURS: [run(400_000), run(200_000), run(400_000)],
            "Aerobee on RocketMQ": [run(900_000)] * 3,
            CONFLUENT: [run(200_000), run(100_000), run(500_000)],
            "nats-py": [run(500_000), run(500_000), run(100_000)],
        }
    )
    assert texts("send", found) == {
        "400,000 msg/s (at least 300,000)": True,
        "2.00x confluent-kafka": True,
        "0.80x nats-py": False,
    }
    assert missed(found) == ["send: 0.80x nats-py"]


@pytest.mark.parametrize(("theirs", "met"), [(450_000.0, True), (450_001.0, False)])
def test_consuming_is_level_with_confluent_alone(theirs: float, met: bool) -> None:
    """As fast is enough; how fast the others are is shown and no bar."""
    cell = {OURS: [run(450_000)], CONFLUENT: [run(theirs)], "aiokafka": [run(9e9)]}
    found = texts("batches", report(batches=cell))
    assert found == {"450,000 msg/s (at least 450,000)": True, "1.00x confluent-kafka": met}


def test_polling_is_held_against_a_handler_of_batches() -> None:
    """Of the same run; without one there is nothing to hold it against."""
    slow = report(batches={OURS: [run(500_000)]}, polled={OURS: [run(400_000)]})
    assert texts("polled", slow) == {"0.80x a handler of batches (at least 0.95x)": False}
    assert texts("polled", report(polled={OURS: [run(400_000)]})) == {}


def test_lone_sends_and_trips_are_held_by_their_median() -> None:
    """100 us to the acknowledgement, 1 ms to the handler."""
    lone = {OURS: [run(9_000, p50_us=101.0, p99_us=200.0)]}
    trip = {OURS: [run(3_000, p50_us=270.0, p99_us=700.0)]}
    found = report(lone=lone, trip=trip)
    assert missed(found) == ["lone: p50 101 us (at most 100)"]
    assert texts("trip", found) == {"p50 270 us (under 1 ms)": True}


def test_a_failure_is_a_bar_that_is_missed() -> None:
    """Whoever lost a message must not end with 0, whatever else was reached."""
    assert missed(Report(failures=["send, nats-py: 3 acknowledged, 2 stored"]))
    assert missed(Report()) == []


def test_what_is_measured_is_divided_by_messages() -> None:
    """CPU of the client as it says, of the server between the marks."""
    answer = {"messages": 1_000, "seconds": 0.5, "cpu_s": 0.002, "p50_us": 90.0}
    found = Measured.read(answer, Sample(1.0), Sample(1.004))
    assert (found.per_second, found.cpu_us) == (2_000.0, 2.0)
    assert found.server_us == pytest.approx(4.0)
    assert (found.p50_us, found.bytes_each) == (90.0, None)


def test_each_client_does_what_the_table_says_of_it() -> None:
    """Loads by their names, and a rival of ours is whoever is not our client."""
    names = {load.name for load in LOADS}
    assert {load for client in CLIENTS for load in client.settings} == names
    assert all(client.settings.keys() <= names for client in CLIENTS)
    assert len({client.slug for client in CLIENTS}) == len(CLIENTS)
    assert tuple(client.name for client in CLIENTS[2:]) == RIVALS


def test_who_cannot_be_had_says_why_and_so_does_who_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """aiokafka's topics are made by confluent-kafka's program."""

    def refused(name: str, pinned: object) -> Path:
        raise compiling.BuildFailed(f"no {name} today")

    monkeypatch.setattr(compiling, "python_packages", refused)
    clients = {each.name: each for each in CLIENTS}
    assert unobtainable(clients[CONFLUENT]) == "no kafka_confluent today"
    assert unobtainable(clients["aiokafka"]) == (
        "confluent-kafka, which makes its topics, cannot be had: no kafka_confluent today"
    )
    assert unobtainable(clients[OURS]) is None


def test_slow_clients_consume_fewer_messages(tmp_path: Path) -> None:
    """And a quick run a tenth; who sends sends by the clock."""
    plan = Plan(Cpus(0, 1), tmp_path, 3, 1.5, CLIENTS)
    quick = Plan(Cpus(0, 1), tmp_path, 1, 0.4, CLIENTS, is_quick=True)
    loads, clients = {each.name: each for each in LOADS}, {each.name: each for each in CLIENTS}
    assert plan.messages(loads["send"], clients[OURS]) == 0
    assert plan.messages(loads["batches"], clients[OURS]) == 300_000
    assert plan.messages(loads["batches"], clients["nats-py"]) == 60_000
    assert plan.messages(loads["ahead"], clients["nats-py"]) == 100_000
    assert quick.messages(loads["singles"], clients["Java"]) == 30_000
    assert plan.windows_max(clients[OURS]) < plan.windows_max(clients[CONFLUENT])
    assert plan.windows_max(clients["Java"]) == plan.windows_max(clients[CONFLUENT])


def a_report() -> Report:
    """Return one with each kind of figure."""
    found = report(
        send={OURS: [run(300_000), run(330_000)], CONFLUENT: [run(200_000), run(220_000)]},
        lone={
            OURS: [run(9_000, p50_us=90.0, p99_us=150.0)],
            CONFLUENT: [run(4_000, p50_us=180.0, p99_us=300.0)],
        },
        ahead={
            OURS: [run(1, bytes_each=1_280.0)],
            CONFLUENT: [run(1, bytes_each=1_536.0)],
        },
    )
    found.warmups["send", OURS] = [run(1, cpu_us=2.0), run(1, cpu_us=2.1)]
    return found


def test_rows_have_a_cell_for_each_column() -> None:
    """In every table, ours with its bars, others with our ratio."""
    found = a_report()
    for load in LOADS:
        if load.name in found.cells:
            for row in rows(load, found):
                assert len(row) == len(columns(load))
    first, second = rows(LOADS[0], found)
    assert first[:4] == (OURS, "Aerobee", "315,000", "10%")
    assert first[-1] == "met: 315,000 msg/s (at least 300,000); met: 1.50x confluent-kafka"
    assert second[-2:] == ("1.50x", "")
    ahead = next(load for load in LOADS if load.name == "ahead")
    assert next(iter(rows(ahead, found)))[2:5] == ("1", "1,280", "25%")


def test_a_result_is_kept_and_drawn_from_what_was_kept(tmp_path: Path) -> None:
    """One group of bars for each load, names and figures in it."""
    kept = write(tmp_path, document(a_report(), MACHINE, {"load_average_before": 0.1}))
    assert kept.name.endswith("-clients-amd-epyc-2-cpus.json")
    content = json.loads(kept.read_text())
    assert content["clients"][CONFLUENT]["settings"]["batches"] == "consume(1000)"
    assert content["warm_up"][0]["cpu_us"] == [2.0, 2.1]
    drawn = ElementTree.fromstring(draw(content))
    said = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert said.count(OURS) == said.count(CONFLUENT) == 3
    assert "180 us, p99 300" in said and "1,280 bytes" in said
    assert "315,000 msg/s, 2.0 us of CPU each" in said


def test_windows_are_told_with_whether_they_were_alike() -> None:
    """Two are too few to say so."""
    (line,) = warm_lines(a_report())
    assert line.startswith("send: Aerobee NOT FLAT after 2 windows") and "2.00 2.10" in line


# --- the programs ---


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the runner would hear, without a pipe."""
    heard: list[str] = []
    monkeypatch.setattr(meter, "mark", heard.append)
    yield heard


def an_order(**more: Any) -> meter.Order:
    """Return an order that consumes ten messages, unless told otherwise."""
    values: dict[str, Any] = {
        "way": "w",
        "topic": "t",
        "group": "g",
        "seconds": 1.0,
        "count": 10,
        "first": 0,
    }
    return meter.Order(**(values | more))


def test_an_order_comes_over_the_line_as_it_was_given() -> None:
    """The runner's words are the program's."""
    given = Given("send-64", "t-1", "group-7", 1.5, 0, 1 << 40)
    read = meter.Order.read(given.line() + "\n")
    assert read == meter.Order("send-64", "t-1", "group-7", 1.5, 0, 1 << 40)


def test_numbers_go_on_where_the_warm_ones_end_and_stop_at_the_count() -> None:
    """A topic that is filled with 1,000 has them all, numbered from 0."""
    order = an_order(count=1_000)
    assert [*order.warm_numbers(), *order.numbers()] == list(range(1_000))


def test_numbers_stop_when_the_time_is_over() -> None:
    """No time at all is none at all, wherever the numbers begin."""
    assert list(an_order(count=0, seconds=0.0, first=1 << 40).numbers()) == []


def test_bodies_are_1_kib_and_no_two_alike() -> None:
    """They begin with their number and have no zeros."""
    bodies = [BODIES.of(number) for number in (0, 1, 0x10000, 1 << 40)]
    assert {len(body) for body in bodies} == {meter.BODY_BYTES}
    assert len(set(bodies)) == len(bodies)
    assert all(0 not in body for body in bodies)
    assert all(map(BODIES.is_whole, bodies))
    assert not BODIES.is_whole(bodies[0][:-1] + b"?")


def taken(*parts: list[bytes]) -> tuple[int, meter.Run]:
    """Take messages in batches; return how many the clock saw, and the run."""
    one = meter.Run(an_order(), BODIES)
    found = meter.Taken(one)
    for part in parts:
        found.add(part)
    return found.measured(), one


def test_what_came_before_the_clock_is_not_counted(marks: list[str]) -> None:
    """The first batch begins it, the last one ends it."""
    bodies = [BODIES.of(number) for number in range(10)]
    measured, one = taken(bodies[:4], bodies[4:7], bodies[7:])
    assert (measured, one.errors, marks) == (6, [], ["begin", "end"])


@pytest.mark.usefixtures("marks")
@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7, 8, 8], "10 came of 10, 9 of them distinct"),
        ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9], "11 came of 10, 10 of them distinct"),
        ([0, 1, 2, 3, 4, 5, 6, 7, 8, 10], "10 came of 10, 10 of them distinct"),
    ],
)
def test_what_comes_twice_or_never_is_an_error(numbers: list[int], said: str) -> None:
    """Of ten messages each has to come once."""
    _, one = taken(*([BODIES.of(number)] for number in numbers))
    assert one.errors == [said]


@pytest.mark.usefixtures("marks")
def test_a_body_that_was_changed_is_an_error() -> None:
    """In batches the last one of each is looked at; one by one the first, the last, one in 256."""
    spoilt = BODIES.of(4)[:-1] + b"?"
    _, one = taken([BODIES.of(number) for number in range(4)] + [spoilt])
    assert one.errors[0].startswith("a body is not what was sent")
    single = meter.Run(an_order(count=1), BODIES)
    meter.Taken(single).add_one(BODIES.of(0)[:-1] + b"?")
    assert single.errors[0].startswith("a body is not what was sent")


def test_one_by_one_the_clock_begins_with_the_first(marks: list[str]) -> None:
    """And ends with the last."""
    one = meter.Run(an_order(), BODIES)
    found = meter.Taken(one)
    for number in range(10):
        found.add_one(BODIES.of(number))
    assert (found.measured(), found.done, one.errors) == (9, True, [])
    assert marks == ["begin", "end"]


def test_stored_and_acknowledged_have_to_be_the_same() -> None:
    """In both directions."""
    one = meter.Run(an_order(), BODIES, acked=5)
    one.expect_stored(10, 15)
    assert one.errors == []
    one.expect_stored(10, 14)
    assert one.errors == ["5 acknowledged, 4 stored"]


@pytest.mark.usefixtures("marks")
async def test_sends_from_tasks_and_one_by_one_are_counted() -> None:
    """What was sent is what the order's numbers are, and what is answered says so."""
    sent: list[int] = []

    async def send(number: int) -> None:
        sent.append(number)

    one = meter.Run(an_order(count=1_000), BODIES)
    assert await meter.in_tasks(one, send) == 1_000 - meter.WARM_MESSAGES == one.acked
    assert sorted(sent) == list(range(meter.WARM_MESSAGES, 1_000))
    lone = meter.Run(an_order(count=1_000), BODIES)
    assert await meter.one_by_one(lone, send) == 1_000 - meter.WARM_MESSAGES
    assert lone.answer(488)["p99_us"] >= lone.answer(488)["p50_us"] > 0


@pytest.mark.usefixtures("marks")
async def test_a_trip_that_brings_another_message_is_an_error() -> None:
    """Each send waits for its own."""
    last = 0

    async def send(number: int) -> None:
        nonlocal last
        last = number

    async def arrives() -> bytes:
        return BODIES.of(last + (last == 700))

    one = meter.Run(an_order(count=1_000), BODIES)
    assert await meter.round_trips(one, send, arrives) == 1_000 - meter.WARM_MESSAGES
    assert len(one.errors) == 1 and one.errors[0].startswith("message 700 was sent")
    assert one.acked == 1_000
