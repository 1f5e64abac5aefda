"""Foreign clients produce and consume, and what arrives is what was sent."""

import time

import pytest
from support.interop import peers
from support.interop.cluster import Cluster
from support.interop.meeting import Meeting
from support.interop.peers import Consumer, Content, Peer
from support.interop.raw_messages import (
    create_topic,
    read_queue,
    send,
    wait_for_end,
    wait_for_route,
)
from support.interop.raw_remoting import RawClient

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

QUEUES = 4
COMPRESSED_BYTES = 9000  # every client compresses from 4 KiB on
WAKINGS = 3
WAKE_UP_S_MAX = 4.0  # of the quickest: one not woken waits 5 s from the one before, for a look


def topic_of(word: str, peer: Peer) -> str:
    """Return a topic of this test's own."""
    return f"{word}-{peer.name.replace('.', '_')}"


def sample(peer: Peer, count: int = 12) -> list[Content]:
    """Messages of three tags: text of several planes, an empty key's neighbour, a large body."""
    tags = ["TagA", "TagB", third_tag(peer)]
    bodies = [f"{peer} {number} é 中 🐝".encode() for number in range(count)]
    bodies[3] = b"large " + b"x" * COMPRESSED_BYTES
    return [Content(tags[n % 3], f"key-{n}", body) for n, body in enumerate(bodies)]


def third_tag(peer: Peer) -> str:
    """Return a tag outside ASCII, where the client computes its hash as Java does."""
    return "Prüfung" if peer.hashes_utf16 else "TagC"


@pytest.mark.parametrize("client", peers.ALL, ids=str)
def test_tagged_messages_arrive_whole(meeting: Meeting, client: Peer) -> None:
    """A client sends three tags, and a consumer of two of them gets exactly those, unchanged."""
    topic = meeting.topic("tags", client, QUEUES)
    group = meeting.group(topic)
    messages = sample(client)
    sent = client.produce(meeting.cluster.namesrv, topic, messages)
    assert [report["status"] for report in sent] == ["SEND_OK"] * len(messages)

    wanted = [message for message in messages if message.tags != "TagB"]
    expression = f"TagA || {third_tag(client)}"
    with meeting.session(client).open("push", group, topic, tags=expression) as consumer:
        received = consumer.wait_for(len(wanted), settle_s=0.5)

    assert sorted(message.content for message in received) == sorted(wanted)
    assert {message.topic for message in received} == {topic}
    for queue in range(QUEUES):  # each holds what was sent to it in the order of the sends
        placed = sorted((m.queue_offset, m.content) for m in received if m.queue_id == queue)
        turns = [wanted.index(content) for _, content in placed]
        assert turns == sorted(turns)
        assert len({offset for offset, _ in placed}) == len(placed)
    ids = {report["msgId"] for report in sent}
    assert {message.msg_id for message in received} <= ids


def test_everyone_reads_everyone(server: Cluster, peer: Peer) -> None:
    """Each consumer reads what all five producers have sent to one topic."""
    topic = "shared-by-all"
    messages = sorted(message for sender in peers.ALL for message in sample(sender, 5))
    produce_once(server, topic)

    with Consumer(
        peer, server.namesrv, topic, f"{topic}-{peer.name.replace('.', '_')}"
    ) as consumer:
        received = consumer.wait_for(len(messages))

    assert sorted(message.content for message in received) == messages


def produce_once(server: Cluster, topic: str) -> None:
    """Let every peer send its five messages, unless an earlier test did it on this server."""
    with RawClient(server.namesrv) as client:
        if client.call(105, {"topic": topic}).code == 0:
            return
    create_topic(server.broker, topic, QUEUES)
    wait_for_route(server.namesrv, topic)
    for sender in peers.ALL:
        sender.produce(server.namesrv, topic, sample(sender, 5))


def test_batch_becomes_single_messages(server: Cluster, batching_peer: Peer) -> None:
    """A batch is one request and one queue, and each of its messages has its own offset."""
    topic = topic_of("batch", batching_peer)
    create_topic(server.broker, topic, 1)
    wait_for_route(server.namesrv, topic)
    messages = sample(batching_peer)

    (report,) = batching_peer.produce(server.namesrv, topic, messages, batch=True)

    assert report["status"] == "SEND_OK"
    assert report["queueOffset"] == 0
    with RawClient(server.broker) as client:
        wait_for_end(client, topic, 0, len(messages))
        stored = read_queue(client, topic, 0)
    assert [record.queue_offset for record in stored] == list(range(len(messages)))
    contents = [Content(r.properties["TAGS"], r.properties["KEYS"], r.body) for r in stored]
    assert contents == messages


def test_topic_appears_with_the_first_send(server: Cluster, creating_peer: Peer) -> None:
    """A send to an unknown topic creates it, and a route is there when the send is answered."""
    topic = topic_of("created", creating_peer)
    messages = sample(creating_peer, 4)

    sent = creating_peer.produce(server.namesrv, topic, messages)

    assert [report["status"] for report in sent] == ["SEND_OK"] * len(messages)
    with RawClient(server.namesrv) as client:
        assert client.call(105, {"topic": topic}).code == 0
    with Consumer(creating_peer, server.namesrv, topic, f"{topic}-group") as consumer:
        received = consumer.wait_for(len(messages))
    assert sorted(message.content for message in received) == sorted(messages)


def test_held_pull_wakes_on_arrival(server: Cluster, peer: Peer) -> None:
    """A message that arrives while the consumer waits is delivered at once, another tag is not."""
    topic = topic_of("held", peer)
    create_topic(server.broker, topic, 1)
    wait_for_route(server.namesrv, topic)
    with (
        RawClient(server.broker) as client,
        Consumer(peer, server.namesrv, topic, f"{topic}-group", "TagA") as consumer,
    ):
        assert send(client, topic, 0, b"0", {"TAGS": "TagA", "KEYS": "k"}).code == 0
        waited_s = list[float]()
        for number in range(1, WAKINGS + 1):
            consumer.wait_for(number, settle_s=0.5)  # the next pull is held by then
            assert send(client, topic, 0, b"other", {"TAGS": "TagB", "KEYS": "k"}).code == 0
            sent_at = time.monotonic()
            assert send(client, topic, 0, b"%d" % number, {"TAGS": "TagA", "KEYS": "k"}).code == 0
            received = consumer.wait_for(number + 1, settle_s=0)
            waited_s.append(time.monotonic() - sent_at)
    assert [message.content.body for message in received] == [b"0", b"1", b"2", b"3"]
    assert min(waited_s) < WAKE_UP_S_MAX, waited_s


def test_consumer_resumes_where_it_stopped(server: Cluster, peer: Peer) -> None:
    """A consumer of the same group goes on after the offsets that the first one committed."""
    topic = topic_of("resume", peer)
    group = f"{topic}-group"
    create_topic(server.broker, topic, 1)
    wait_for_route(server.namesrv, topic)
    with RawClient(server.broker) as client:
        for number in range(3):
            body = b"before %d" % number
            assert send(client, topic, 0, body, {"TAGS": "T", "KEYS": "k"}).code == 0
        with Consumer(peer, server.namesrv, topic, group) as consumer:
            consumer.wait_for(3)
            wait_for_commit(client, topic, group, 3)
        assert send(client, topic, 0, b"after", {"TAGS": "T", "KEYS": "k"}).code == 0
    with Consumer(peer, server.namesrv, topic, group) as consumer:
        received = consumer.wait_for(1)
    assert [message.content.body for message in received] == [b"after"]


def wait_for_commit(client: RawClient, topic: str, group: str, offset: int) -> None:
    """Return once the group's committed offset is `offset`; clients commit every 5 s."""
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0"}
    deadline = time.monotonic() + 60
    while client.call(14, fields).ext.get("offset") != str(offset):
        assert time.monotonic() < deadline, f"{group} has not committed {offset} in 60 s"
        time.sleep(0.1)
