"""What the overload benchmark holds a broker to, and of which rounds it says nothing."""

from collections.abc import Sequence

from benchmarks.overload import Phase, missed


def phase(
    name: str, rate: float, *, latest_ms: float = 10, others: float = 0, blind_ms: float = 5
) -> Phase:
    """Return a phase of a second."""
    figures = {
        "phase": name,
        "stored": rate,
        "seconds": 1.0,
        "came_ms": [1.0, 2.0, latest_ms],
        "blind_ms": blind_ms,
    }
    return Phase(figures, 1.0, 50, others)


def rounds(*middles: Phase, after: float = 100) -> list[Sequence[Phase]]:
    """Return a round for each load between two best rates, the first of a hundred a second."""
    return [(phase("best", 100), middle, phase("best", after)) for middle in middles]


def test_nine_tenths_of_the_best_rates_are_to_be_served() -> None:
    """The median counts: one bad round of three is the machine's."""
    bad, good = phase("2", 80), phase("2", 91)
    assert missed(rounds(good, bad, good)) == []
    assert missed(rounds(good, bad, bad)) == ["80% of the best rate at 2x, at least 90%"]
    assert missed(rounds(*[phase("3", 10)] * 3)) == [], "only twice the load has a share to reach"


def test_no_message_of_any_round_may_be_late() -> None:
    """The latest of all counts, at every load."""
    late, good = phase("3", 100, latest_ms=301), phase("3", 100, latest_ms=300)
    assert missed(rounds(good, good, good)) == []
    (text,) = missed(rounds(good, late, good))
    assert text.startswith("at 3x a message was acknowledged 301 ms after it came")


def test_the_best_rate_comes_back() -> None:
    """95 % of it, at the median."""
    assert missed(rounds(*[phase("2", 100)] * 3, after=95)) == []
    assert missed(rounds(*[phase("2", 100)] * 3, after=94)) == [
        "94% of the best rate when 2x is over"
    ]


def test_a_rate_that_swings_by_itself_is_not_blamed_on_overload() -> None:
    """After hardly any load it fell as far in one of three rounds."""
    swings = [
        (
            phase("best", 100),
            phase("0.05", 5),
            phase("best", 100),
            phase("2", 100),
            phase("best", at),
        )
        for at in (80, 80, 80)
    ]
    assert missed(swings) == ["80% of the best rate when 2x is over"]
    first, second, third = swings
    swings = [first, second, (phase("best", 130), *third[1:])]
    assert missed(swings) == []


def test_disturbed_rounds_are_no_excuse_for_having_no_others() -> None:
    """They do not count, and without three that do nothing has been shown."""
    late, good = phase("2", 50, latest_ms=999, others=0.11), phase("2", 100)
    blind = phase("2", 50, latest_ms=999, blind_ms=101)
    assert missed(rounds(late, good, blind, good, good)) == []
    assert missed(rounds(late, good, blind, good)) == ["at 2x others disturbed 2 of 4 rounds"]
