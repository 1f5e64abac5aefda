"""Counters over a minute, an hour and a day."""

import random

import pytest

from aerobee.broker.health.history import STEP, Grown, GrowthHistory


def test_windows_end_with_the_newest_sample() -> None:
    """One message a second for thirty hours, sampled every ten seconds."""
    history = GrowthHistory[str](0.0)
    for at_s in range(10, 30 * 3600 + 10, 10):
        history.sample(at_s, {"a": (at_s, 100 * at_s)})
    minute, hour, day = history.minute("a"), history.hour("a"), history.day("a")
    assert minute == Grown(60, 6000, 60.0)
    assert 3600 <= hour.seconds <= 4200 and 86_400 <= day.seconds <= 90_000
    for grown in (minute, hour, day):
        assert grown.messages == grown.seconds and grown.size_bytes == 100 * grown.messages
        assert grown.per_second == 1.0


def test_a_counter_that_comes_late_was_nothing_before() -> None:
    """All that it has is new, whichever row it gets."""
    history = GrowthHistory[str](0.0)
    history.sample(10.0, {"a": (5, 50)})
    history.sample(20.0, {"a": (5, 50), "b": (7, 70)})
    assert history.minute("b") == Grown(7, 70, 20.0)
    assert history.minute("a") == Grown(5, 50, 20.0)
    assert "b" in history and "c" not in history
    assert history.minute("c").messages == 0 == history.per_second("c")


def test_what_is_gone_leaves_nothing_to_who_comes_next() -> None:
    """Rows are used again, empty in every sample."""
    history = GrowthHistory[str](0.0)
    history.sample(10.0, {"a": (5, 50), "b": (1, 1)})
    history.sample(20.0, {"b": (2, 2)})
    assert "a" not in history
    history.sample(30.0, {"b": (3, 3), "c": (4, 40)})
    assert history.minute("c") == Grown(4, 40, 30.0)
    assert history.minute("b") == Grown(3, 3, 30.0)


def test_a_counter_that_begins_anew_is_not_below_nothing() -> None:
    """A topic that is deleted and made again between two samples has what came since."""
    history = GrowthHistory[str](0.0)
    history.sample(10.0, {"a": (500, 500)})
    history.sample(20.0, {"a": (3, 30)})
    for grown in (history.minute("a"), history.hour("a"), history.day("a")):
        assert (grown.messages, grown.size_bytes) == (3, 30)


def test_many_counters_are_taken_in_steps() -> None:
    """Others have a turn in between; until the last step the sample before is the newest."""
    history = GrowthHistory[int](0.0)
    first = {number: (1, 1) for number in range(3 * STEP)}
    steps = history.sampling(10.0, first)
    next(steps)
    assert history.minute(0).messages == 0
    assert len(list(steps)) == 2
    assert history.minute(0).messages == 1
    assert len(list(history.sampling(20.0, {}))) == 3
    assert 0 not in history


@pytest.mark.parametrize("seed", range(5))
def test_windows_agree_with_a_plain_list_of_samples(seed: int) -> None:
    """Counters come, go and grow by chance; a model keeps every sample."""
    chance = random.Random(seed)
    history, totals = GrowthHistory[int](0.0), dict[int, tuple[int, int]]()
    samples: list[tuple[float, dict[int, tuple[int, int]]]] = [(0.0, {})]
    for number in range(1, 60):
        for key in range(8):
            if chance.random() < 0.1 and key in totals:
                del totals[key]
                for _, sample in samples:
                    sample.pop(key, None)  # what it had is forgotten
            elif chance.random() < 0.5:
                messages, size_bytes = totals.get(key, (0, 0))
                totals[key] = messages + chance.randrange(1, 9), size_bytes + 10
        samples.append((10.0 * number, dict(totals)))
        history.sample(10.0 * number, dict(totals))
        at_s, first = samples[max(0, len(samples) - 7)]
        for key in range(8):
            messages, size_bytes = totals.get(key, (0, 0))
            before, bytes_before = first.get(key, (0, 0)) if key in totals else (0, 0)
            expected = Grown(messages - before, size_bytes - bytes_before, 10.0 * number - at_s)
            assert history.minute(key) == expected
