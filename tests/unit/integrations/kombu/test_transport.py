"""Kombu on a cluster: who gets what, when it is done, and what becomes of the rest."""

import os
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kombu.connection import Connection
from kombu.entity import Exchange, Queue
from kombu.exceptions import OperationalError
from kombu.messaging import Consumer, Producer

from aerobee.client.errors import InvalidSetting
from aerobee.testing import ClusterThread


def put(connection: Connection, queue: Queue, *bodies: Any, **how: Any) -> None:
    """Publish to a queue, as Celery does."""
    producer = Producer(connection.channel())
    for body in bodies:
        producer.publish(body, serializer="json", routing_key=queue.name, declare=[queue], **how)


def get(channel: Any, queue: Queue) -> Any:
    """Return the next message, or None."""
    return queue(channel).get(accept=["json"])


class Taker:
    """A consumer that keeps what it gets."""

    def __init__(self, connection: Connection, *queues: Queue, **how: Any) -> None:
        self.connection = connection
        self.messages: list[Any] = []
        self.consumer: Any = Consumer(connection.channel(), list(queues), **how)
        self.consumer.register_callback(lambda body, message: self.messages.append(message))
        self.consumer.consume()

    def take(self, count: int, seconds: float = 10) -> list[Any]:
        """Drain until there are so many, or for so long."""
        ends = time.monotonic() + seconds
        while len(self.messages) < count and time.monotonic() < ends:
            try:
                self.connection.drain_events(timeout=max(ends - time.monotonic(), 0))
            except TimeoutError:
                break
        return [message.payload for message in self.messages]

    def close(self) -> None:
        """End its channel."""
        self.consumer.channel.close()


def test_what_is_put_is_got_until_it_is_acknowledged(connection: Connection) -> None:
    """What is in hand is not got twice."""
    queue = Queue("plain.in/order@here")
    put(connection, queue, 1, 2, 3)
    channel = connection.channel()
    got = [get(channel, queue) for _ in range(3)]
    assert sorted(message.payload for message in got) == [1, 2, 3]
    assert get(channel, queue) is None
    for message in got:
        message.ack()


def test_a_prefetch_count_bounds_what_is_in_hand(connection: Connection) -> None:
    """An acknowledgement makes room for the next one."""
    queue = Queue("prefetched")
    put(connection, queue, *range(6))
    taker = Taker(connection, queue, prefetch_count=2)
    assert len(taker.take(2)) == 2
    assert len(taker.take(3, seconds=0.3)) == 2
    taker.messages[0].ack()
    assert len(taker.take(3)) == 3
    taker.close()


def test_what_is_not_acknowledged_goes_to_others_and_what_is_does_not(
    connection: Connection, other: Connection
) -> None:
    """Also what is acknowledged behind something that is not."""
    queue = Queue("handed-on")
    put(connection, queue, *range(10))
    taker = Taker(connection, queue)
    assert sorted(taker.take(10)) == list(range(10))
    for message in taker.messages:
        if message.payload % 2:
            message.ack()
    taker.close()
    second = Taker(other, queue)
    assert sorted(second.take(5)) == [0, 2, 4, 6, 8]
    assert all(message.delivery_info["redelivered"] for message in second.messages)
    assert len(second.take(6, seconds=0.3)) == 5
    second.close()


def test_reject_drops_and_requeue_delivers_again(connection: Connection) -> None:
    """As often as it is asked for."""
    queue = Queue("rejected")
    put(connection, queue, "dropped")
    channel = connection.channel()
    get(channel, queue).reject()
    assert get(channel, queue) is None
    put(connection, queue, "again")
    for _ in range(3):
        get(channel, queue).requeue()
    message = get(channel, queue)
    assert (message.payload, message.delivery_info["redelivered"]) == ("again", True)
    message.ack()


def test_what_needs_no_acknowledgement_is_done_when_it_is_got(connection: Connection) -> None:
    """It does not come again, and does not count as being in hand."""
    queue = Queue("unacknowledged")
    put(connection, queue, "got")
    channel: Any = connection.channel()
    message = queue(channel).get(no_ack=True, accept=["json"])
    assert (message.payload, channel.handed) == ("got", {})
    channel.close()
    assert get(connection.channel(), queue) is None


def test_purge_leaves_nothing(connection: Connection, other: Connection) -> None:
    """Nobody gets what was there; what comes behind it arrives."""
    queue = Queue("purged")
    put(connection, queue, *range(5))
    bound = queue(connection.channel())
    assert bound.purge() == 5
    taker = Taker(other, queue)
    assert taker.take(1, seconds=0.5) == []
    put(connection, queue, "behind")
    assert taker.take(1) == ["behind"]
    taker.close()


def test_a_fanout_reaches_all_who_listen_elsewhere(
    connection: Connection, other: Connection
) -> None:
    """Each of two connections gets the message."""
    told = Exchange("told.all", type="fanout")
    takers = [
        Taker(each, Queue(f"ear-{at}", told, auto_delete=True), no_ack=True)
        for at, each in enumerate([connection, other])
    ]
    Producer(connection.channel()).publish("hear", serializer="json", exchange=told, declare=[told])
    assert [taker.take(1) for taker in takers] == [["hear"], ["hear"]]


def test_replies_and_events_find_who_listens_by_their_keys(
    connection: Connection, other: Connection
) -> None:
    """Their publisher knows of no binding."""
    replies, events = Exchange("replies"), Exchange("events", type="topic")
    mine = Queue("mine", replies, routing_key="me", auto_delete=True)
    tasks = Queue("tasks", events, routing_key="task.#", auto_delete=True)
    taker = Taker(connection, mine, tasks, no_ack=True)
    producer = Producer(other.channel())
    for exchange, key in [
        (replies, "you"),
        (replies, "me"),
        (events, "worker"),
        (events, "task.x"),
    ]:
        producer.publish(
            key, serializer="json", exchange=exchange, routing_key=key, declare=[exchange]
        )
    assert sorted(taker.take(2)) == ["me", "task.x"]
    assert len(taker.take(3, seconds=0.3)) == 2


def test_a_time_is_kept_by_the_broker_also_beyond_its_timers(cluster: ClusterThread) -> None:
    """What comes early is sent on, so that no worker holds it."""
    options = {"timer_max_delay": 1}
    url = f"aerobee://{cluster.namesrv_addr}"
    with Connection(url, transport_options=options) as connection:
        queue = Queue("due")
        due = datetime.now(UTC) + timedelta(seconds=2.5)
        put(connection, queue, "in pieces", headers={"eta": due.isoformat()})
        taker = Taker(connection, queue)
        assert taker.take(1, seconds=1.8) == []  # one piece of the way is over
        assert not taker.consumer.channel.handed  # and the worker holds nothing
        assert taker.take(1) == ["in pieces"]
        assert datetime.now(UTC) >= due
        taker.close()


def test_what_is_held_too_long_goes_to_others(cluster: ClusterThread) -> None:
    """A worker that hangs keeps nothing for ever."""
    options = {"visibility_timeout": 0.5}
    url = f"aerobee://{cluster.namesrv_addr}"
    with Connection(url, transport_options=options) as connection:
        queue = Queue("held")
        put(connection, queue, "held")
        taker = Taker(connection, queue)
        assert taker.take(2) == ["held", "held"]
        assert taker.messages[1].delivery_info["redelivered"]
        for message in taker.messages:
            message.ack()
        taker.close()


def test_a_channel_that_nobody_asks_leaves_its_queues_to_others(
    connection: Connection, other: Connection
) -> None:
    """One look at a queue does not stop its messages."""
    queue = Queue("left")
    assert get(connection.channel(), queue) is None
    put(connection, queue, *range(8))
    taker = Taker(other, queue)
    assert sorted(taker.take(8)) == list(range(8))
    taker.close()


def test_what_is_none_of_kombus_is_left_out(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named in the log, and stops nothing."""
    from aerobee.client.sync import Message
    from aerobee.client.sync import Producer as PlainProducer

    queue = Queue("foreign")
    put(connection, queue, "ours")
    link = connection.transport.link
    with PlainProducer(namesrv=link.namesrv) as producer:
        producer.send(Message("foreign", b"\xffnot JSON"))
        producer.send(Message("foreign", b"[]"))
        sound = b'{"body": "", "properties": {}}'
        for hostile in (  # of which kombu makes no message, or which nobody can look into
            b'{"body": "x", "properties": {"body_encoding": "base64"}}',
            b'{"body": "x", "properties": {"body_encoding": "rot13"}}',
            b'{"body": 5, "properties": {}}',
            b'{"body": "", "properties": {}, "headers": ["task"]}',
            b'{"body": "", "properties": {"delivery_info": [1]}}',
            b'{"body": "", "properties": {"delivery_info": {"routing_key": 1}}}',
        ):
            producer.send(Message("foreign", hostile))
        for due in ("soon", "2026-01-01T00:00:00"):
            producer.send(Message("foreign", sound, properties={"kombu_due": due}))
        producer.send(Message("foreign", b"[]", properties={"kombu_expires_ms": "9" * 5000}))
    taker = Taker(connection, queue)
    assert taker.take(2, seconds=0.5) == ["ours"]
    taker.messages[0].ack()
    assert caplog.text.count("left out") == 11
    taker.close()


def test_what_is_none_of_kombus_ends_nobody_who_hears_an_exchange(
    connection: Connection, other: Connection
) -> None:
    """What comes behind it is heard."""
    from aerobee.client.sync import Message
    from aerobee.client.sync import Producer as PlainProducer

    events = Exchange("hostile", type="topic")
    taker = Taker(connection, Queue("ear", events, routing_key="#", auto_delete=True), no_ack=True)
    topic = connection.transport.exchange_topic("hostile")
    with PlainProducer(namesrv=connection.transport.link.namesrv) as producer:
        for hostile in (
            b'{"body": "", "properties": {"delivery_info": {"routing_key": 1}}}',
            b'{"body": "", "properties": {"delivery_info": [1]}}',
            b'{"body": "", "properties": []}',
            b"[]",
        ):
            producer.send(Message(topic, hostile))
    Producer(other.channel()).publish(
        "sound", serializer="json", exchange=events, routing_key="a.b", declare=[events]
    )
    assert taker.take(1) == ["sound"]
    taker.close()


def test_the_child_of_a_fork_takes_nothing_from_its_parent(connection: Connection) -> None:
    """It connects for itself; its copy of the parent's channel does nothing."""
    queue = Queue("forked")
    put(connection, queue, "before")
    taker = Taker(connection, queue)
    assert taker.take(1) == ["before"]
    channel = taker.consumer.channel
    reads, writes = os.pipe()
    if (child := os.fork()) == 0:
        answer = "failed"
        try:
            with pytest.raises(ConnectionError, match="before a fork"):
                channel.basic_publish(channel.prepare_message("x"), "", "forked")
            put(connection, queue, "from the child")
            connection.close()
            answer = "connected for itself"
        finally:
            os.write(writes, answer.encode())
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writes)
    assert os.read(reads, 1_000) == b"connected for itself"
    put(connection, queue, "after")
    assert sorted(taker.take(4, seconds=0.5)) == ["after", "before", "from the child"]
    taker.close()


def test_wrong_settings_and_addresses_are_refused(cluster: ClusterThread) -> None:
    """Where they are used first, and by their names."""
    with pytest.raises(InvalidSetting, match="queues=0: it has to be 1 to 1024"):
        Connection("aerobee://localhost", transport_options={"queues": 0}).connect()
    for name in ("visibility_timeout", "handover_timeout", "timer_max_delay"):
        for wrong in (-1, float("nan"), float("inf"), "9", True, 10**12):
            with pytest.raises(InvalidSetting, match=f"{name}=.*: it has to be"):
                Connection("aerobee://localhost", transport_options={name: wrong}).connect()
    nobody = Connection("aerobee://localhost:1")
    with pytest.raises(OperationalError, match="localhost:1"):
        nobody.ensure_connection(max_retries=1, interval_start=0)
    with pytest.raises(ValueError, match="signs no requests"):
        Connection(f"aerobee://me:secret@{cluster.namesrv_addr}").connect()
