"""`aerobee broker add` and `aerobee topic spread` over three brokers."""

from collections.abc import Iterator

import pytest
from support.servers.commands import Commands

from aerobee.testing import ClusterThread


@pytest.fixture(scope="module")
def three() -> Iterator[ClusterThread]:
    """A cluster of three brokers."""
    with ClusterThread(brokers=3) as running:
        yield running


@pytest.fixture
def commands(three: ClusterThread) -> Commands:
    """Run commands over it."""
    return Commands(three.namesrv_addr)


def places(commands: Commands, topic: str) -> dict[str, tuple[int, int]]:
    """Return by broker how many queues a topic has to read and to write."""
    rows = commands.json("topic", "list", "--like", topic)
    return {
        row["broker"]: (row["read_queues"], row["write_queues"])
        for row in rows
        if row["topic"] == topic
    }


def test_a_new_broker_gets_what_another_one_has(commands: Commands) -> None:
    """Topics with their attributes and groups; what it has in another way stays, and is told."""
    commands("topic", "create", "a-orders", "-q", "5", "--type", "FIFO", "-b", "broker-a")
    commands("group", "create", "a-billing", "--retries", "3", "-b", "broker-a")
    commands("topic", "create", "a-both", "-q", "2", "-b", "broker-a")
    commands("topic", "create", "a-both", "-q", "4", "-b", "broker-b")
    words = ("broker", "add", "broker-b", "--from", "broker-a")
    shown = commands.json(*words, "--dry-run")
    assert [(row["action"], row["name"]) for row in shown] == [
        ("create", "a-orders"), ("create", "a-billing"),
    ]  # fmt: skip
    assert places(commands, "a-orders") == {"broker-a": (5, 5)}
    assert "--yes" in commands(*words, code=2).stderr
    done = commands(*words, "--yes")
    assert "2 changes made" in done.stderr
    assert "a-both has other settings on broker-b than on broker-a" in done.stderr
    assert places(commands, "a-orders") == {"broker-a": (5, 5), "broker-b": (5, 5)}
    (row,) = [
        row
        for row in commands.json("topic", "list", "-b", "broker-b")
        if row["topic"] == "a-orders"
    ]
    assert row["type"] == "FIFO"
    assert commands.json(*words, "--yes") == []
    commands("broker", "add", "broker-z", "--from", "broker-a", code=2)
    commands("broker", "add", "broker-a", "--from", "broker-a", code=2)


def test_topics_are_spread(commands: Commands) -> None:
    """As they are, or with so many queues on all; again nothing is left to do."""
    commands("topic", "create", "s-orders", "-q", "6", "-b", "broker-a")
    words = ("topic", "spread", "s-orders", "--over", "broker-a", "--over", "broker-b")
    commands(*words, "--yes")
    assert places(commands, "s-orders") == {"broker-a": (6, 6), "broker-b": (6, 6)}
    assert commands.json(*words) == []
    total = ("topic", "spread", "s-orders", "--total-queues", "10")
    rows = commands.json(*total, "--dry-run")
    assert [(row["action"], row["broker"]) for row in rows] == [
        ("change", "broker-a"), ("change", "broker-b"), ("create", "broker-c"),
    ]  # fmt: skip
    commands(*total, "--yes")
    assert places(commands, "s-orders") == {
        "broker-a": (6, 4), "broker-b": (6, 3), "broker-c": (3, 3),
    }  # fmt: skip
    assert commands.json(*total) == []
    for wrong in (("nobody",), ("s-orders", "--all"), (), ("s-orders", "--over", "broker-z"),
                  ("s-orders", "--total-queues", "2")):  # fmt: skip
        commands("topic", "spread", *wrong, code=2)
