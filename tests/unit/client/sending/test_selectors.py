"""Queues take turns, keys stick to queues."""

import pytest

from aerobee.client.message import Message, MessageQueue
from aerobee.client.sending.selectors import RoundRobin, at_random, by_key

QUEUES = [MessageQueue("t", broker, at) for broker in ("a", "b") for at in range(2)]
MESSAGE = Message("t", b"x")


def test_queues_take_turns() -> None:
    """Each queue comes once before any comes again."""
    turns = RoundRobin()
    picked = [turns.pick(QUEUES) for _ in range(8)]
    assert sorted(picked[:4]) == sorted(picked[4:]) == QUEUES


def test_another_broker_is_preferred() -> None:
    """A broker to avoid is avoided where there is another one."""
    turns = RoundRobin(0)
    assert {turns.pick(QUEUES, "a").broker_name for _ in range(8)} == {"b"}
    assert turns.pick(QUEUES[:2], "a") in QUEUES[:2]


@pytest.mark.parametrize(
    ("key", "index"),
    [
        (7, 3),
        (-7, 3),  # Java's -7 % 4 is -3
        ("abc", 96354 % 4),
        ("polygenelubricants", 0),  # its Java hash is Integer.MIN_VALUE
    ],
)
def test_equal_keys_go_where_java_sends_them(key: str | int, index: int) -> None:
    """SelectMessageQueueByHash picks the same queue."""
    assert by_key(key)(QUEUES, MESSAGE) == QUEUES[index]


def test_at_random_picks_one_of_them() -> None:
    """Any queue may come, no other does."""
    assert {at_random(QUEUES, MESSAGE) for _ in range(500)} == set(QUEUES)
