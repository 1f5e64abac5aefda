"""Ways to consume, by each client that has them, on RocketMQ 5.5.0 and on ours with one outcome."""

from collections import defaultdict
from contextlib import ExitStack
from functools import partial

import pytest
from support.interop import peers
from support.interop.meeting import Meeting, content
from support.interop.peers import Peer, PeerFailed, Received
from support.interop.raw_messages import read_queue, wait_for_end
from support.interop.sessions import Member

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

JAVAS = [peers.JAVA_5, peers.JAVA_4]
QUEUES = 4
ROUNDS = 12
FAILING = 5  # the round whose message fails twice, in every queue


@pytest.mark.parametrize("client", [*JAVAS, peers.GO, peers.OURS], ids=str)
def test_sql_selects_by_properties(meeting: Meeting, client: Peer) -> None:
    """Numbers, strings, absent properties with AND, OR, IN, BETWEEN, IS NULL, sent by a client."""
    topic = meeting.topic("sql", client)
    session = meeting.session(client)
    sql = (
        "(number > 3 AND number <= 9 AND colour IN ('red', 'it''s')) "
        "OR special IS NOT NULL OR number BETWEEN 20 AND 21 AND NOT (colour = 'red')"
    )
    wanted = {4, 6, 7, 8, 11, 21}
    with session.open("push", meeting.group(topic), topic, sql=sql) as consumer:
        for number in range(24):
            colour = "it's" if number == 7 else "red" if number % 2 == 0 else "blue"
            properties = {"p.number": number, "p.colour": colour}
            properties |= {"p.special": "x"} if number == 11 else {}
            session.send(topic, content(b"%d" % number), **properties)
        received = consumer.wait_for(len(wanted), settle_s=0.5)
    assert sorted(int(message.content.body) for message in received) == sorted(wanted)
    assert {(m.content.tags, m.content.keys) for m in received} == {("TagA", "k")}


@pytest.mark.parametrize("client", [*JAVAS, peers.OURS], ids=str)
def test_bad_sql_is_refused_at_the_start(meeting: Meeting, client: Peer) -> None:
    """A consumer whose expression cannot be read does not start, and is told why."""
    topic = meeting.topic("bad-sql", client, 1)
    with pytest.raises(PeerFailed, match=r"(?i)number"):
        meeting.session(client).open("push", meeting.group(topic), topic, sql="number > AND 3")


@pytest.mark.parametrize("client", [*JAVAS, peers.GO, peers.CPP, peers.OURS], ids=str)
def test_orderly_queues_keep_their_order(meeting: Meeting, client: Peer) -> None:
    """Members share four queues; a message that fails twice holds up its own queue alone."""
    topic = meeting.topic("orderly", client, QUEUES)
    group = meeting.group(topic)
    session = meeting.session(client)
    # Go's members keep the locks of queues that they lose until these expire after a minute
    count = 1 if client is peers.GO else 2
    with ExitStack() as stack:
        members = [stack.enter_context(session.open("orderly", group, topic)) for _ in range(count)]
        wait_for_shares(meeting, topic, members)
        for number in range(ROUNDS):
            word = b"fail=2" if number == FAILING else b"good"
            for queue in range(QUEUES):
                meeting.send(topic, queue, b"%s %d" % (word, number))
        expected = [
            name
            for number in range(ROUNDS)
            for name in (
                [b"fail=2 %d" % number] * 3 if number == FAILING else [b"good %d" % number]
            )
        ]
        members[0].wait_until(
            lambda: measured(members) >= len(expected) * QUEUES, 60, "all in order"
        )
        members[0].wait_for(0, settle_s=0.5)
        for queue, bodies in by_queue(members).items():
            assert bodies == expected, f"queue {queue}"
        owners = [{message.queue_id for message in rounds(member)} for member in members]
        assert sorted(queue for owner in owners for queue in owner) == [*range(QUEUES)]
        assert {len(owner) for owner in owners} == {QUEUES // count}


def wait_for_shares(meeting: Meeting, topic: str, members: list[Member]) -> None:
    """Return once a message to every queue was shared evenly by the members."""
    for _ in range(60):
        before = [len(member.received) for member in members]
        wanted = sum(before) + QUEUES
        for queue in range(QUEUES):
            meeting.send(topic, queue, b"warm")
        members[0].wait_until(partial(have, members, wanted), 60, "a warm round")
        came = [len(m.received) - b for m, b in zip(members, before, strict=True)]
        if len(set(came)) == 1:
            return
        members[0].wait_for(0, settle_s=1.0)
    raise AssertionError(f"{members[0].group} never shared its queues evenly")


def have(members: list[Member], count: int) -> bool:
    """Whether so many messages came to all the members."""
    return sum(len(member.received) for member in members) >= count


def rounds(member: Member) -> list[Received]:
    """Return what came after the warm rounds."""
    return [m for m in list(member.received) if m.content.body != b"warm"]


def measured(members: list[Member]) -> int:
    """Return how many messages of rounds came to all the members."""
    return sum(len(rounds(member)) for member in members)


def by_queue(members: list[Member]) -> dict[int, list[bytes]]:
    """Return the bodies of each queue in the order of their delivery; one member had each queue."""
    found = defaultdict[int, list[bytes]](list)
    for member in members:
        for message in rounds(member):
            found[message.queue_id].append(message.content.body)
    return found


@pytest.mark.parametrize("client", [*JAVAS, peers.GO, peers.OURS], ids=str)
def test_orderly_gives_up_after_its_retries(meeting: Meeting, client: Peer) -> None:
    """A message that fails more often than allowed is put away, and its queue goes on."""
    topic = meeting.topic("orderly-dead", client, 1)
    group = meeting.group(topic, 1)
    with meeting.session(client).open("orderly", group, topic, retries=1) as consumer:
        for body in (b"one", b"fail=9", b"two"):
            meeting.send(topic, 0, body)
        tries = 3 if client is peers.GO else 2  # Go gives up when there are more than `retries`
        consumer.wait_for(2 + tries, settle_s=1.5)
    assert consumer.bodies() == [b"one", *[b"fail=9"] * tries, b"two"]
    wait_for_end(meeting.broker, f"%DLQ%{group}", 0, 1)
    (dead,) = read_queue(meeting.broker, f"%DLQ%{group}", 0)
    assert (dead.body, dead.properties["RETRY_TOPIC"]) == (b"fail=9", topic)


@pytest.mark.parametrize("client", [*peers.ALL, peers.OURS], ids=str)
def test_broadcasting_reaches_every_member(meeting: Meeting, client: Peer) -> None:
    """Each member gets all once, a failed message too; who returns goes on where it left."""
    topic = meeting.topic("broadcast", client, QUEUES)
    group = meeting.group(topic)
    session = meeting.session(client)
    instance = f"first-{meeting.cluster.name}-{session.pid}"
    first = session.open("broadcast", group, topic, instance=instance)
    with first, session.open("broadcast", group, topic) as second:
        failing = client is not peers.GO  # which keeps its offset before a failed message
        sent = [b"%d %s" % (n, b"fail=9" if failing and n == 3 else b"good") for n in range(8)]
        for number, body in enumerate(sent):
            meeting.send(topic, number % QUEUES, body)
        for member in (first, second):
            member.wait_for(len(sent))
            assert sorted(member.bodies()) == sorted(sent)
        first.close()
        more = [b"more %d" % n for n in range(4)]
        for number, body in enumerate(more):
            meeting.send(topic, number % QUEUES, body)
        with session.open("broadcast", group, topic, instance=instance) as again:
            again.wait_for(len(more))
            if client is not peers.NODE:  # which stores its offsets by a timer only
                assert sorted(again.bodies()) == sorted(more)
        second.wait_for(len(sent) + len(more))
        assert sorted(second.bodies()) == sorted(sent + more)
    assert meeting.committed(topic, group) == -1
