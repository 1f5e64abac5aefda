"""Every member computes the same shares as RocketMQ's Java classes do."""

import random
from pathlib import Path

import pytest

from aerobee.client.balance import Averagely, AveragelyByCircle, Strategy
from aerobee.client.message import MessageQueue

GOLDEN = Path(__file__).parents[2] / "golden" / "balance" / "allocate.txt"
STRATEGIES: dict[str, Strategy] = {each.name: each for each in (Averagely(), AveragelyByCircle())}
ROWS = [line for line in GOLDEN.read_text().splitlines() if line.startswith("AVG")]


def queues_like_java(count: int) -> list[MessageQueue]:
    """Build the queues that the golden table was made with."""
    return sorted(
        MessageQueue("t", "broker-b" if at % 3 == 0 else "broker-a", at) for at in range(count)
    )


def members_like_java(count: int) -> list[str]:
    """Build the client ids that the golden table was made with."""
    return sorted(f"10.0.0.{at * 7 + 3}@{1000 - at}" for at in range(count))


def test_shares_are_those_of_java() -> None:
    """Each row of the captured table comes out of our strategies."""
    assert len(ROWS) == 198
    for row in ROWS:
        name, queue_count, member_count, *shares = row.split(" ")
        queues, members = queues_like_java(int(queue_count)), members_like_java(int(member_count))
        expected = [share.split(",") if share else [] for share in shares[0].split("|")]
        got = [
            [
                f"{queue.broker_name[7:]}{queue.queue_id}"
                for queue in STRATEGIES[name].allocate("g", member, queues, members)
            ]
            for member in members
        ]
        assert got == expected, row


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_every_queue_has_one_owner(strategy: Strategy) -> None:
    """For random shapes the shares cover all the queues once and differ by one at most."""
    seed = random.randrange(1 << 32)
    print(f"seed={seed}")
    choose = random.Random(seed)
    for _ in range(300):
        queues = queues_like_java(choose.randrange(0, 70))
        members = members_like_java(choose.randrange(1, 30))
        shares = [strategy.allocate("g", member, queues, members) for member in members]
        assert sorted(queue for share in shares for queue in share) == queues
        sizes = [len(share) for share in shares]
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_who_is_not_listed_gets_nothing(
    strategy: Strategy, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that the broker does not list owns no queue, and says so in RocketMQ's words."""
    caplog.set_level("INFO")
    assert strategy.allocate("g", "me", queues_like_java(4), ["other"]) == []
    assert "no member yet group=g client=me members=['other']" in caplog.text
