"""Clients of different kinds in one group, lite pull, and what the others cannot do."""

import time
from contextlib import ExitStack

import pytest
from support.interop import peers
from support.interop.cluster import Cluster
from support.interop.peers import Consumer, Content, Peer
from support.interop.raw_messages import create_topic, send, wait_for_route
from support.interop.raw_remoting import RawClient

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

QUEUES = 10
BALANCE_SECONDS_MAX = 100  # a member may balance at its 20 s timer only


@pytest.mark.needs("java", "go", "cpp", "node")
def test_one_group_of_five_kinds_shares_the_queues(server: Cluster) -> None:
    """Five clients, one group: after balancing every queue has one owner and each owns two."""
    topic, group = "mixed", "mixed-group"
    create_topic(server.broker, topic, QUEUES)
    wait_for_route(server.namesrv, topic)
    with ExitStack() as stack:
        client = stack.enter_context(RawClient(server.broker))
        members = [
            stack.enter_context(Consumer(peer, server.namesrv, topic, group)) for peer in peers.ALL
        ]
        round_number, owners = send_until_balanced(client, topic, members)
    assert sorted(owners) == list(range(QUEUES))
    assert all(len(names) == 1 for names in owners.values()), owners
    shares = [sum(names == {member.peer.name} for names in owners.values()) for member in members]
    assert shares == [QUEUES // len(members)] * len(members), owners
    got = {message.content.body for member in members for message in member.received}
    assert got == {
        body_of(round_, queue) for round_ in range(round_number + 1) for queue in range(QUEUES)
    }


def send_until_balanced(
    client: RawClient, topic: str, members: list[Consumer]
) -> tuple[int, dict[int, set[str]]]:
    """Send rounds of a message per queue until one was shared evenly; return it and its owners."""
    deadline = time.monotonic() + BALANCE_SECONDS_MAX
    round_number = -1
    while time.monotonic() < deadline:
        round_number += 1
        for queue in range(QUEUES):
            answer = send(
                client, topic, queue, body_of(round_number, queue), {"TAGS": "T", "KEYS": "k"}
            )
            assert answer.code == 0, answer
        wait_for_round(members, round_number)
        owners = owners_by_round(members, round_number)
        shares = [sum(member.peer.name in names for names in owners.values()) for member in members]
        if shares == [QUEUES // len(members)] * len(members):
            return round_number, owners
        time.sleep(1)
    raise AssertionError(f"not balanced within {BALANCE_SECONDS_MAX} s: {owners}")


def wait_for_round(members: list[Consumer], round_number: int) -> None:
    """Return once every message of a round has reached somebody."""
    deadline = time.monotonic() + BALANCE_SECONDS_MAX
    while len(owners_by_round(members, round_number)) < QUEUES:
        assert time.monotonic() < deadline, f"round {round_number} has not arrived whole"
        time.sleep(0.05)


def body_of(round_number: int, queue: int) -> bytes:
    """Return the body that names its round and queue."""
    return b"round %d queue %d" % (round_number, queue)


def owners_by_round(members: list[Consumer], round_number: int) -> dict[int, set[str]]:
    """Return who received the message of each queue in a round."""
    owners: dict[int, set[str]] = {}
    for member in members:
        for message in list(member.received):
            if message.content.body == body_of(round_number, message.queue_id):
                owners.setdefault(message.queue_id, set()).add(member.peer.name)
    return owners


@pytest.mark.needs("java")
@pytest.mark.parametrize("java", [peers.JAVA_5, peers.JAVA_4], ids=str)
def test_java_lite_pull_gets_tagged_messages(server: Cluster, java: Peer) -> None:
    """DefaultLitePullConsumer subscribes with tags and polls what was sent before and after."""
    topic = f"lite-{java.name.replace('.', '_')}"
    create_topic(server.broker, topic, 2)
    wait_for_route(server.namesrv, topic)
    with RawClient(server.broker) as client:
        assert send(client, topic, 0, b"before", {"TAGS": "TagA", "KEYS": "1"}).code == 0
        assert send(client, topic, 1, b"never", {"TAGS": "TagB", "KEYS": "2"}).code == 0
        group = f"{topic}-group"
        with Consumer(java, server.namesrv, topic, group, "TagA", command="lite") as consumer:
            consumer.wait_for(1)
            assert send(client, topic, 1, b"after", {"TAGS": "TagA", "KEYS": "3"}).code == 0
            received = consumer.wait_for(2)
    assert [message.content for message in received] == [
        Content("TagA", "1", b"before"),
        Content("TagA", "3", b"after"),
    ]
