"""Delayed messages that one broker took are delivered by the other, each of them once."""

import time
from collections import Counter
from pathlib import Path

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.raw_messages import create_topic, read_queue, send, wait_for_route
from support.interop.raw_remoting import RawClient
from support.interop.rocketmq_server import RocketMQ

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(300)]

KINDS: dict[str, type[Cluster]] = {"rocketmq": RocketMQ, "aerobee": Aerobee}
TOPIC = "delayed-store"
OTHER = "forged"
LEVELS = "1s 60s"
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
        (stored,) = read_queue(client, OTHER, 0)
    assert stored.properties["AEROBEE_DELAYED"] == f"2-{COUNT - 1}"


def wait_for(client: RawClient, bodies: set[bytes], seconds: float) -> None:
    """Return once all of them are in their topic, each once and nothing else."""
    deadline = time.monotonic() + seconds
    while True:
        found = Counter(message.body for message in read_queue(client, TOPIC, 0))
        assert set(found.values()) <= {1}, found
        if found.keys() == bodies:
            return
        assert found.keys() <= bodies and time.monotonic() < deadline, bodies - found.keys()
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
                waiting = delayed(client, "long", 2)
            if number == 1 and kind == "rocketmq":
                forge(cluster.broker)
            due |= delayed(client, f"short {number}", 1)
            if number == len(generations) - 1:
                wait_for(client, due | waiting, 60)
            else:
                wait_for(client, due, 50)
            if end == "killed":
                cluster.kill_broker()
            else:
                cluster.stop_broker()
