"""Failed messages come again and end as dead letters; delayed ones come when they are due."""

import time

import pytest
from support.interop import peers
from support.interop.meeting import DELAYS_S, Meeting, content
from support.interop.peers import Peer
from support.interop.raw_messages import read_queue
from support.interop.sessions import Member

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

RETRIES = 2
LATE_S_MAX = 10.0  # a delayed message may come that much after its time on a busy machine
EARLY_S_MAX = 0.15  # RocketMQ looks at its levels each 100 ms and may be that much before it
CLIENTS = [*peers.ALL, peers.OURS]


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_failed_messages_come_again_then_are_dead_letters(meeting: Meeting, client: Peer) -> None:
    """One succeeds, one on its second try, one never: it is tried three times and put away."""
    topic = meeting.topic("retry", client)
    group = meeting.group(topic, RETRIES)
    with meeting.session(client).open("push", group, topic, retries=RETRIES) as consumer:
        meeting.send(topic, 0, b"good", "Tag0", "key-0")
        meeting.send(topic, 1, b"fail=1 once", "Tag1", "key-1")
        consumer.wait_for(3, settle_s=0.1)  # apart, for C++ fails all of a batch if one fails
        meeting.send(topic, 2, b"fail=9 always", "Tag2", "key-2")
        consumer.wait_for(6, settle_s=1.5)  # another retry would come within that
        if not loses_dead_letters(meeting, client):
            wait_for_dead_letter(meeting, consumer)
    tried = {body: times_of(consumer, body) for body in set(consumer.bodies())}
    assert tried == {b"good": [0], b"fail=1 once": [0, 1], b"fail=9 always": [0, 1, 2]}
    for message in consumer.received:
        assert message.topic == topic
        assert message.content.tags in ("Tag0", "Tag1", "Tag2")
    if loses_dead_letters(meeting, client):
        return
    (dead,) = read_queue(meeting.broker, f"%DLQ%{group}", 0)
    assert dead.body == b"fail=9 always"
    assert {
        "TAGS": "Tag2",
        "KEYS": "key-2",
        "RETRY_TOPIC": topic,
    }.items() <= dead.properties.items()


def loses_dead_letters(meeting: Meeting, client: Peer) -> bool:
    """Whether the send-backs name no topic, at which RocketMQ 5.5.0 fails with a null pointer."""
    return client is peers.CPP and meeting.cluster.name == "rocketmq"


def times_of(consumer: Member, body: bytes) -> list[int]:
    """Return how often the message had failed at each of its deliveries."""
    return [m.reconsume_times for m in consumer.received if m.content.body == body]


def wait_for_dead_letter(meeting: Meeting, consumer: Member) -> None:
    """Return once the group's dead letters have their first message."""

    def there() -> bool:
        fields = {"topic": f"%DLQ%{consumer.group}", "queueId": "0"}
        answer = meeting.broker.call(30, fields)
        return answer.code == 0 and answer.ext["offset"] == "1"

    consumer.wait_until(there, 60, "a dead letter")


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_delayed_messages_come_when_they_are_due(meeting: Meeting, client: Peer) -> None:
    """Levels two and one and none, sent in this order, arrive by time and unchanged."""
    topic = meeting.topic("delay", client, 1)
    session = meeting.session(client)
    with session.open("push", meeting.group(topic), topic) as consumer:
        session.send(topic, content(b"warm"))
        consumer.wait_for(1, settle_s=0)
        due_s = dict[bytes, tuple[float, float]]()
        for level, delay_s in ((2, DELAYS_S[1]), (1, DELAYS_S[0]), (0, 0)):
            properties = {"p.colour": "red"} | ({"level": level} if level else {})
            asked_s = time.time()
            answer = session.send(topic, content(b"level %d" % level), **properties)
            assert answer["status"] == "SEND_OK"
            due_s[b"level %d" % level] = (asked_s + delay_s, time.time() + delay_s)
        received = consumer.wait_for(4, settle_s=0.5)[1:]
    in_order = sorted(due_s, key=due_s.__getitem__)  # 0, 1, 2, were the sends not slow themselves
    placed = sorted(received, key=lambda each: each.queue_offset)  # threads may handle them
    assert [m.content for m in placed] == [content(body) for body in in_order]
    for message in received:
        soonest_s, latest_s = due_s[message.content.body]
        assert soonest_s - EARLY_S_MAX <= message.at_ms / 1000 <= latest_s + LATE_S_MAX, message
    stored = read_queue(meeting.broker, topic, 0)[1:]
    assert [record.body for record in stored] == in_order
    for record in stored:
        assert record.properties["colour"] == "red"
