"""Delayed messages that one broker took are delivered by the other, each of them once."""

import time
from collections import Counter
from pathlib import Path

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.raw_messages import (
    create_topic,
    read_queue,
    send,
    wait_for_end,
    wait_for_route,
)
from support.interop.raw_remoting import RawClient
from support.interop.rocketmq_server import RocketMQ

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(300)]

KINDS: dict[str, type[Cluster]] = {"rocketmq": RocketMQ, "aerobee": Aerobee}
TOPIC = "delayed-store"
OTHER = "forged"
LONG_S = 60
LEVELS = f"1s {LONG_S}s"
COUNT = 20


def delayed(client: RawClient, name: str, level: int) -> set[bytes]:
    """Send messages of one level and return their bodies."""
    bodies = {b"%s %d" % (name.encode(), number) for number in range(COUNT)}
    for body in sorted(bodies):
        pairs = {"UNIQ_KEY": body.hex().upper(), "TAGS": "TagA", "DELAY": str(level)}
        assert send(client, TOPIC, 0, body, pairs).code == 0
    return bodies


def forge(broker: str) -> None:
    """Send what claims to be a delivery of the last message of level 2: RocketMQ takes it."""
    pairs = {"REAL_TOPIC": OTHER, "REAL_QID": "0", "AEROBEE_DELAYED": f"2-{COUNT - 1}"}
    with RawClient(broker) as client:
        assert send(client, OTHER, 0, b"forged", pairs).code == 0
        wait_for_end(client, OTHER, 0, 1)
        (stored,) = read_queue(client, OTHER, 0)
    assert stored.properties["AEROBEE_DELAYED"] == f"2-{COUNT - 1}"


def wait_for(
    client: RawClient, bodies: set[bytes], seconds: float, waiting: set[bytes], due_s: float
) -> None:
    """Return once all of them are in their topic, each once and nothing else.

    But for what waits for its time, where that has come: two starts of a JVM can take so long.
    """
    deadline = time.monotonic() + seconds
    while True:
        found = Counter(message.body for message in read_queue(client, TOPIC, 0))
        assert set(found.values()) <= {1}, found
        others = found.keys() - bodies
        assert not others or (others <= waiting and time.time() >= due_s), others
        if found.keys() >= bodies:
            return
        assert time.monotonic() < deadline, bodies - found.keys()
        time.sleep(0.2)


@pytest.mark.parametrize(
    "generations",
    [
        ("rocketmq stopped", "aerobee stopped", "rocketmq stopped"),
        ("aerobee stopped", "rocketmq stopped", "aerobee killed", "aerobee stopped"),
    ],
    ids=lambda generations: " - ".join(generations),
)
def test_the_next_broker_delivers_what_is_left(
    generations: tuple[str, ...], tmp_path: Path
) -> None:
    """What was delivered before is not delivered again: delayOffset.json tells, and the log.

    What a producer forges while RocketMQ has the store keeps nothing back.
    """
    store = tmp_path / "store"
    due: set[bytes] = set()
    waiting: set[bytes] = set()
    long_due_s = 0.0
    for number, generation in enumerate(generations):
        kind, end = generation.split()
        directory = tmp_path / f"{number}-{kind}"
        settings = {"messageDelayLevel": LEVELS}
        with (
            KINDS[kind](directory, store=store, settings=settings) as cluster,
            RawClient(cluster.broker) as client,
        ):
            if number == 0:
                create_topic(cluster.broker, TOPIC, 1)
                create_topic(cluster.broker, OTHER, 1)
                wait_for_route(cluster.namesrv, TOPIC)
                long_due_s = time.time() + LONG_S
                waiting = delayed(client, "long", 2)
            if number == 1 and kind == "rocketmq":
                forge(cluster.broker)
            due |= delayed(client, f"short {number}", 1)
            if number == len(generations) - 1:
                wait_for(client, due | waiting, LONG_S + 30, set(), 0.0)
            else:
                wait_for(client, due, 50, waiting, long_due_s)
            if end == "killed":
                cluster.kill_broker()
            else:
                cluster.stop_broker()
