"""Delay levels as properties of a message."""

import pytest

from aerobee.broker.features.delays.levels import arrived_properties, due_ms, postpone
from aerobee.broker.rules.delay_property import delay_level
from aerobee.remoting.errors import RequestError


@pytest.mark.parametrize(
    ("text", "level"),
    [("1", 1), ("+3", 3), ("0", 0), ("-1", 0), ("99", 99), ("2147483647", 2**31 - 1)],
)
def test_a_level_is_read_as_java_reads_it(text: str, level: int) -> None:
    """Signs are allowed, negative levels are none."""
    assert delay_level({"DELAY": text}) == level


@pytest.mark.parametrize(
    "text", ["soon", " 1", "1 ", "", "1_0", "\u0661", "2147483648", "9" * 5000]
)
def test_what_is_no_level_is_refused(text: str) -> None:
    """With a remark that names the property and a bounded part of its value."""
    with pytest.raises(RequestError, match="DELAY") as caught:
        delay_level({"DELAY": text})
    assert len(str(caught.value)) < 200


def test_no_level_is_none() -> None:
    """Most messages have none."""
    assert delay_level({"TAGS": "a"}) == 0


def test_a_message_that_waits_remembers_where_it_belongs() -> None:
    """What a client said of that, or of timers, gives way."""
    properties = {
        "DELAY": "7", "TIMER_DELAY_SEC": "1", "TIMER_DELAY_MS": "1", "TIMER_DELIVER_MS": "1",
        "REAL_TOPIC": "Other", "AEROBEE_DELAYED": "1-1", "K": "v",
    }  # fmt: skip
    assert postpone(properties, "T", 3, 7, 5) == 5
    assert properties == {"DELAY": "5", "K": "v", "REAL_TOPIC": "T", "REAL_QID": "3"}


def test_the_mark_is_added_where_there_is_room() -> None:
    """Else the message is delivered without it."""
    assert arrived_properties(b"A\x01b", 1, 7, 100) == b"A\x01b\x02AEROBEE_DELAYED\x011-7\x02"
    assert arrived_properties(b"A\x01b\x02", 1, 7, 10) == b"A\x01b\x02"
    assert arrived_properties(b"", 1, 7, 100) == b"AEROBEE_DELAYED\x011-7\x02"


def test_nothing_is_due_later_than_its_level_allows() -> None:
    """From now on: a later time was written by a clock that has been set back."""
    assert due_ms(1500, 1000, 500) == 1500
    assert due_ms(1501, 1000, 500) == 1000
    assert due_ms(-1, 1000, 500) == -1
