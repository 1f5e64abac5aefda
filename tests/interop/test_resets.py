"""An admin resets the offsets of a group with RocketMQ's own tool."""

import json
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.interop import peers
from support.interop.meeting import Meeting
from support.interop.peers import RESET, Peer
from support.interop.sessions import Member

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


def offsets(consumer: Member, queue: int) -> list[int]:
    """Return the offsets of a queue in the order in which they came."""
    return [m.queue_offset for m in list(consumer.received) if m.queue_id == queue]


def start_and_reset(meeting: Meeting, client: Peer, members: ExitStack, tmp_path: Path) -> Member:
    """Let a member read six messages, take its group back to the fourth, and send a seventh."""
    topic = meeting.topic("reset-running", client, 1)
    group = meeting.group(topic)
    consumer = members.enter_context(meeting.session(client).open("push", group, topic))
    for number in range(3):
        meeting.send(topic, 0, b"old %d" % number)
    consumer.wait_for(3, settle_s=0.1)
    between_ms = int(time.time() * 1000)
    time.sleep(0.02)
    for number in range(3):
        meeting.send(topic, 0, b"new %d" % number)
    consumer.wait_for(6)
    assert reset(meeting, topic, group, between_ms, tmp_path) == "{0=3}"
    meeting.send(topic, 0, b"wakes the pull that is held")
    return consumer


def check_read_again(consumer: Member) -> None:
    """Wait for the messages from the fourth on: each came again, and once."""
    consumer.wait_for(10)
    read = offsets(consumer, 0)
    assert sorted(read[:6]) == [0, 1, 2, 3, 4, 5], read  # many threads may handle them
    assert sorted(read[6:]) == [3, 4, 5, 6], read


@pytest.mark.parametrize("client", [peers.JAVA_5, peers.CPP, peers.OURS], ids=str)
def test_reset_offset_moves_a_running_group_back(
    meeting: Meeting, client: Peer, tmp_path: Path
) -> None:
    """After a reset by time a running group reads again from there."""
    with ExitStack() as members:
        check_read_again(start_and_reset(meeting, client, members, tmp_path))


@pytest.mark.needs("java", "go", "node")
def test_reset_offset_moves_slow_running_groups_back(meeting: Meeting, tmp_path: Path) -> None:
    """These drop a queue for 10 s when its offset is illegal, and share queues up to 20 s later.

    So they are reset one after the other and waited for together.
    """
    with ExitStack() as members:
        slow = [
            start_and_reset(meeting, client, members, tmp_path)
            for client in (peers.JAVA_4, peers.GO, peers.NODE)
        ]
        for consumer in slow:
            check_read_again(consumer)


@pytest.mark.parametrize("client", [*peers.ALL, peers.OURS], ids=str)
def test_reset_offset_moves_a_resting_group_back(
    meeting: Meeting, client: Peer, tmp_path: Path
) -> None:
    """A group without members is reset as well, and its next member begins there."""
    topic = meeting.topic("reset-resting", client, 1)
    group = meeting.group(topic)
    for number in range(3):
        meeting.send(topic, 0, b"%d" % number)
    session = meeting.session(client)
    with session.open("push", group, topic) as consumer:
        consumer.wait_for(3)
        if client is peers.NODE:  # which does not store offsets when it leaves
            consumer.wait_until(lambda: meeting.committed(topic, group) == 3, 60, "a commit")
    assert reset(meeting, topic, group, 0, tmp_path) == "{0=0}"
    with session.open("push", group, topic) as consumer:
        consumer.wait_for(3)
        assert sorted(offsets(consumer, 0)) == [0, 1, 2]  # many threads may handle them


def reset(meeting: Meeting, topic: str, group: str, timestamp_ms: int, tmp_path: Path) -> str:
    """Reset a group's offsets to a time with RocketMQ's admin client; return what it says."""
    words = [meeting.cluster.namesrv, topic, group, str(timestamp_ms)]
    child = RESET.start(words, tmp_path / "log")
    try:
        output, _ = child.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        child.kill()
        output, _ = child.communicate()
    answers = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert len(answers) == 1, output + (tmp_path / "log").read_text()
    assert "offsets" in answers[0], answers[0]
    return str(answers[0]["offsets"])
