"""A member of each kind has a queue again that another one had, who did some of it."""

import asyncio

import pytest
from support.interop import peers
from support.interop.meeting import Meeting
from support.interop.peers import Peer
from support.interop.sessions import Member
from support.members import RawMember

from aerobee.remoting.codes import ResponseCode

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


def offsets(consumer: Member) -> list[int]:
    """Return the offsets that a member got, in order."""
    return sorted(message.queue_offset for message in list(consumer.received))


# Go takes a queue again whose offset was moved after up to 30 s.
@pytest.mark.parametrize("client", [peers.JAVA_5, peers.CPP, peers.OURS], ids=str)
@pytest.mark.parametrize("meeting", ["aerobee"], indirect=True)
def test_a_member_goes_on_where_the_other_one_stopped(meeting: Meeting, client: Peer) -> None:
    """It never gave the queue up, and the other one was not waited for."""
    topic = meeting.topic("returning", client, 1)
    group = meeting.group(topic)
    with meeting.session(client).open("push", group, topic) as consumer:
        for number in range(3):
            meeting.send(topic, 0, b"first %d" % number)
        consumer.wait_for(3, settle_s=0.1)
        consumer.wait_until(lambda: meeting.committed(topic, group) == 3, 60, "a commit")
        asyncio.run(do_some(meeting, group, topic))
        for number in range(2):
            meeting.send(topic, 0, b"last %d" % number)
        consumer.wait_for(5, settle_s=0.5)
        assert offsets(consumer) == [0, 1, 2, 7, 8]


async def do_some(meeting: Meeting, group: str, topic: str) -> None:
    """Take the only queue, commit four messages, and give it up."""
    port = int(meeting.cluster.broker.rpartition(":")[2])
    async with RawMember(port, "~ the last one of all", group=group) as other:
        await other.beat(topic)
        assert (await other.start_of(0, topic)).code == ResponseCode.SUCCESS
        for number in range(4):
            await asyncio.to_thread(meeting.send, topic, 0, b"others %d" % number)
        await other.commit(7, 0, topic)
        await other.unlock(0, topic=topic)
