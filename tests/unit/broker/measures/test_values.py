"""What is left out of metrics, and counted."""

from aerobee.broker.measures.values import LEFT_OUT, Values
from aerobee.broker.room import Distribution, Histogram

SAID = {"a": "A", "h": "H", LEFT_OUT: "..."}


def test_a_metric_has_a_bounded_number_of_rows() -> None:
    """Whoever makes topics makes no scrape of a million rows; how many are missing is told."""
    values = Values({}, SAID, rows_max=2)
    for number in range(5):
        values.add("a", number, topic=str(number))
        values.spread(Distribution("h", Histogram((1,)), {"topic": str(number)}))
    assert [value for _, value in values.rows["a"]] == [0, 1]
    assert len(values.histograms["h"]) == 2
    values.tell_left_out()
    assert values.rows[LEFT_OUT] == [({"metric": "a"}, 3), ({"metric": "h"}, 3)]


def test_nothing_left_out_is_told_too() -> None:
    """An alert needs a series that is 0."""
    values = Values({}, SAID)
    values.tell_left_out()
    assert values.rows[LEFT_OUT] == [({"metric": ""}, 0)]


def test_a_histogram_is_told_as_it_was() -> None:
    """It goes on while a thread writes it; a value at a bound counts below it, as in RocketMQ."""
    values, histogram = Values({}, SAID), Histogram((1, 5))
    for value in (0, 1, 2, 5, 6):
        histogram.add(value)
    values.spread(Distribution("h", histogram))
    histogram.add(3, 7)
    ((_, told),) = values.histograms["h"]
    assert (told.counts, told.total) == ([2, 2, 1], 14)
    assert (histogram.counts, histogram.total) == ([2, 9, 1], 35)
