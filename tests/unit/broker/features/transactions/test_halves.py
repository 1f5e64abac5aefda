"""What is open and when it is due, in numbers."""

from aerobee.broker.features.transactions.halves import (
    DROPPED_MAX,
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
        halves.add_new(Half(key, number, 500 * number, 0, 1000, 1000), 1000 + number)
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
