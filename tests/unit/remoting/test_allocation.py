"""The arithmetic of shares that brokers and clients have in common."""

from pathlib import Path

import pytest

from aerobee.remoting.allocation import (
    STRATEGIES,
    allocate,
    by_consistent_hash,
    sorted_members,
    sorted_queues,
)
from aerobee.remoting.bodies import QueueBody

GOLDEN = Path(__file__).parents[2] / "golden" / "balance" / "allocate.txt"
ROWS = [line for line in GOLDEN.read_text().splitlines() if line.startswith("AVG")]


def queue(number: int, broker_name: str = "broker-a") -> QueueBody:
    """Return a queue of topic t."""
    return QueueBody(topic="t", broker_name=broker_name, queue_id=number)


def test_shares_of_every_size_are_those_of_java() -> None:
    """Up to 31 queues and 9 members, as AVG and AVG_BY_CIRCLE share them."""
    assert len(ROWS) == 198
    for row in ROWS:
        name, queue_count, member_count, shares = row.split(" ")
        queues = sorted_queues(
            queue(at, "broker-b" if at % 3 == 0 else "broker-a") for at in range(int(queue_count))
        )
        members = sorted_members(
            f"10.0.0.{at * 7 + 3}@{1000 - at}" for at in range(int(member_count))
        )
        got = [
            [
                f"{each.broker_name[7:]}{each.queue_id}"
                for each in allocate(name, queues, members, me)
            ]
            for me in members
        ]
        assert got == [share.split(",") if share else [] for share in shares.split("|")], row


@pytest.mark.parametrize("name", STRATEGIES)
def test_who_is_no_member_has_no_share(name: str) -> None:
    """Nor has anybody one of nothing."""
    assert allocate(name, [queue(0)], ["other"], "me") == []
    assert allocate(name, [queue(0)], [], "me") == []
    assert allocate(name, [], ["me"], "me") == []
    assert allocate(name, [queue(0)], ["me"], "me") == [queue(0)]


def test_other_strategies_are_unknown() -> None:
    """Those that need what only a client knows."""
    with pytest.raises(KeyError):
        allocate("CONFIG", [], ["me"], "me")


def test_names_sort_as_java_sorts_them() -> None:
    """By UTF-16 units, in which what lies beyond the first 65,536 characters comes earlier."""
    assert sorted_members(["\uff21", "😀", "a"]) == ["a", "😀", "\uff21"]
    brokers = [each.broker_name for each in sorted_queues([queue(1, "\uff21"), queue(0, "😀")])]
    assert brokers == ["😀", "\uff21"]


def test_who_is_listed_twice_has_twice_the_places() -> None:
    """As ConsistentHashRouter.addNode counts them."""
    queues = [queue(number) for number in range(200)]
    once = by_consistent_hash(queues, ["a", "b"], "a")
    twice = by_consistent_hash(queues, ["a", "a", "b"], "a")
    assert set(once) < set(twice)
