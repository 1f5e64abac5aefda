"""What is open and when it is due, in numbers."""

from aerobee.broker.features.transactions.halves import (
    DROPPED_MAX,
    SPARE_DUES,
    Half,
    Key,
    OpenHalves,
    Waits,
)

COUNT = 5 * DROPPED_MAX


def many(count: int) -> OpenHalves:
    """So many open halves, due one after the other."""
    halves = OpenHalves(Waits(6000, 30_000))
    for number in range(count):
        key = Key("pg", f"K{number}", "T")
        halves.add(Half(key, number, 500 * number, 0, 1000, 1000), 1000, 1000 + number)
    return halves


def test_a_look_behind_many_that_have_ended_is_short() -> None:
    """It drops a few of them, and comes again at once, until it finds who is due."""
    halves = many(COUNT)
    for number in range(COUNT - 1):
        half = halves.at(number)
        assert half is not None
        halves.end(half, 8)
    assert halves.next_due() == 7000 + DROPPED_MAX
    looks, found = 0, list[Half]()
    while not found:
        looks += 1
        found = list(halves.take_due(100_000, 64))
    assert 1 < looks < 6
    assert [half.offset for half in found] == [COUNT - 1]
    halves.end(found[0], 8)
    assert halves.next_due() is None


def test_so_many_are_taken_at_once() -> None:
    """The others are due still; none before its time."""
    halves = many(100)
    assert [half.offset for half in halves.take_due(7009, 64)] == list(range(10))
    assert len(list(halves.take_due(100_000, 64))) == 64
    assert halves.next_due() == 7074


def test_runs_are_taken_as_one_by_one() -> None:
    """What is open, what has ended and how, and what is due is the same, also where many ended."""
    each, runs = OpenHalves(Waits(6000, 30_000)), OpenHalves(Waits(6000, 30_000))
    size = 100
    for turn in range(5 * SPARE_DUES // size):
        numbers = range(turn * size, (turn + 1) * size)
        keys = [Key("pg", f"K{number % 3000}", "TU"[number % 2]) for number in numbers]
        for key, number in zip(keys, numbers, strict=True):
            each.add(Half(key, number, 500 * number, 0, 1000, 1000), 1000, turn)
        opened = {
            key: Half(key, number, 500 * number, 0, 1000, 1000, begun=500 * number)
            for key, number in zip(keys, numbers, strict=True)
        }
        runs.add_run(opened, {half.offset: half for half in opened.values()}, turn)
        assert list(runs) == list(each)
        assert runs.by_topic == each.by_topic
        assert runs.next_due() == each.next_due()
        ended = list(runs)[: size - 1 if turn % 2 else 0] + list(runs)[-1:]
        outcomes = [8 + 4 * (half.offset % 2) for half in ended]
        for half, outcome in zip(ended, outcomes, strict=True):
            each.end(half, outcome)
        runs.end_run(ended, outcomes)
        assert [runs.outcome(key) for key in keys] == [each.outcome(key) for key in keys]
        assert runs.next_due() == each.next_due()
    due = [halves.take_due(100_000, 10_000) for halves in (each, runs)]
    first, second = ([half.offset for half in found] for found in due)
    assert first == second


def test_a_run_keeps_dues_few() -> None:
    """Those of what has ended are dropped in one go."""
    halves = OpenHalves(Waits(6000, 30_000))
    for number in range(5 * SPARE_DUES):
        key = Key("pg", f"K{number}", "T")
        half = Half(key, number, 500 * number, 0, 1000, 1000, begun=500 * number)
        halves.add_run({key: half}, {number: half}, 10)
        if number:
            halves.end_run([half], [8])
    assert len(halves._dues) < SPARE_DUES + 10
    assert halves.next_due() == 6010
    assert [half.offset for half in halves.take_due(6010, 10)] == [0]
