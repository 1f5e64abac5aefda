"""When a message is due: at its sending, and by its record."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerobee.broker.features.timers.times import due_ms, out_ms


@pytest.mark.parametrize(
    ("deliver", "out"),
    [
        (1_700_000_000_000, 1_699_999_999_000),
        (1_700_000_000_001, 1_700_000_000_000),
        (1_700_000_000_500, 1_700_000_000_000),
        (1_700_000_000_999, 1_700_000_000_000),
    ],
)
def test_the_slot_is_rocketmqs(deliver: int, out: int) -> None:
    """The second before, also of a whole one."""
    assert out_ms(deliver) == out


@given(st.integers(1, 2**40), st.integers(1, 10**9))
def test_a_delay_counts_from_the_storing(stored: int, delay: int) -> None:
    """And is believed only where it lies in the slot; else the slot's end is taken."""
    out = out_ms(stored + delay)
    pairs = {"TIMER_DELAY_MS": str(delay), "TIMER_OUT_MS": str(out)}
    assert due_ms(pairs, stored) == (out, stored + delay)
    assert due_ms(pairs, stored + 86_400_000) == (out, out + 1000)
    assert due_ms({"TIMER_OUT_MS": str(out)}, stored) == (out, out + 1000)


@pytest.mark.parametrize("pairs", [{}, {"TIMER_OUT_MS": "x"}, {"TIMER_OUT_MS": "-1000"}])
def test_a_record_without_a_time_is_none(pairs: dict[str, str]) -> None:
    """RocketMQ's timer stops at such a one for good."""
    with pytest.raises(ValueError, match="no time"):
        due_ms(pairs, 0)
