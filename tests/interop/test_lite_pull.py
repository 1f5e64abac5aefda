"""Lite pull consumers seek, pause, and are given queues."""

import time
from contextlib import suppress

import pytest
from support.interop import peers
from support.interop.meeting import Meeting
from support.interop.peers import Peer, PeerFailed
from support.interop.sessions import Member

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

LITE = [peers.JAVA_5, peers.JAVA_4, peers.OURS]
PAUSE_TAKES_S = 1.2  # a paused queue is looked at again after a second
COUNT = 6


@pytest.mark.parametrize("client", LITE, ids=str)
def test_lite_pull_seeks_pauses_and_commits(meeting: Meeting, client: Peer) -> None:
    """Seek to an offset, the begin, the end; pause holds messages back; leaving commits."""
    topic = meeting.topic("seek", client, 2)
    group = meeting.group(topic)
    for number in range(COUNT):
        for queue in range(2):
            meeting.send(topic, queue, b"%d of %d" % (number, queue))
    with meeting.session(client).open("lite", group, topic) as consumer:
        consumer.wait_for(2 * COUNT)
        assert offsets(consumer, 0) == offsets(consumer, 1) == [*range(COUNT)]
        consumer.steer("seek", topic=topic, queue=0, offset=4)
        consumer.wait_for(2 * COUNT + 2)
        assert offsets(consumer, 0) == [*range(COUNT), 4, 5]
        consumer.steer("seek-begin", topic=topic, queue=1)
        consumer.wait_for(3 * COUNT + 2)
        assert offsets(consumer, 1) == [*range(COUNT), *range(COUNT)]
        consumer.steer("seek", topic=topic, queue=0, offset=0)
        consumer.steer("seek-end", topic=topic, queue=0)
        consumer.wait_for(3 * COUNT + 2)
        before = len(consumer.received)
        meeting.send(topic, 0, b"after the end")
        consumer.wait_for(before + 1)
        assert consumer.bodies()[-1] == b"after the end"
        consumer.steer("pause", topic=topic, queue=1)
        under_way = b"taken by the pull that is under way"
        meeting.send(topic, 1, under_way)
        with suppress(PeerFailed):  # that came between two pulls, and the queue rests already
            consumer.wait_until(lambda: under_way in consumer.bodies(), 10, "what was under way")
        meeting.send(topic, 1, b"held back")
        time.sleep(2 * PAUSE_TAKES_S)
        assert b"held back" not in consumer.bodies()
        consumer.steer("resume", topic=topic, queue=1)
        consumer.wait_until(lambda: b"held back" in consumer.bodies(), 60, "what was held back")
        assert consumer.steer("offset-for", topic=topic, queue=0, time=0)["offset"] == 0
    assert meeting.committed(topic, group, 0) == COUNT + 1
    assert meeting.committed(topic, group, 1) == COUNT + 2


@pytest.mark.parametrize("client", LITE, ids=str)
def test_assigned_queues_are_read_by_no_member(meeting: Meeting, client: Peer) -> None:
    """A consumer with given queues reads those, beside another that has the same one."""
    topic = meeting.topic("assign", client, 3)
    group = meeting.group(topic)
    session = meeting.session(client)
    for queue in range(3):
        meeting.send(topic, queue, b"queue %d" % queue)
    with (
        session.open("lite", group, topic, assign="1,2") as two,
        session.open("lite", group, topic, assign="2") as one,
    ):
        two.wait_for(2)
        one.wait_for(1)
    assert sorted(two.bodies()) == [b"queue 1", b"queue 2"]
    assert one.bodies() == [b"queue 2"]


def offsets(consumer: Member, queue: int) -> list[int]:
    """Return the offsets of a queue in the order in which they came."""
    return [m.queue_offset for m in list(consumer.received) if m.queue_id == queue]
