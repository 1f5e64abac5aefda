"""Producers that wait: the answers and errors of the asyncio client, from any number of threads."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from aerobee.client.sync import (
    InvalidMessage,
    InvalidUse,
    LitePullConsumer,
    Message,
    Producer,
    ProducerSettings,
    PullConsumer,
    SendResult,
    SendStatus,
    Unavailable,
)


def new_topic() -> str:
    """Return a name that no other test uses."""
    return f"t-{uuid.uuid4().hex[:12]}"


def stored(namesrv: str, topic: str) -> list[bytes]:
    """Return the bodies of all that a topic holds."""
    with PullConsumer("readers", namesrv=namesrv) as consumer:
        bodies = []
        for queue in consumer.fetch_queues(topic):
            end, offset = consumer.newest_offset(queue), 0
            while offset < end:
                result = consumer.pull(queue, offset)
                bodies += [message.body for message in result.messages]
                offset = result.next_offset
        return bodies


def test_every_kind_of_send_is_answered(namesrv: str) -> None:
    """One, many, one-way, delayed and taken back; equal keys share a queue."""
    topic = new_topic()
    with Producer("senders", namesrv=namesrv) as producer:
        one = producer.send(Message(topic, b"one", tags="new"), key="o-1")
        two = producer.send(Message(topic, b"two"), key="o-1")
        assert (one.status, two.queue, two.queue_offset) == (SendStatus.SEND_OK, one.queue, 1)
        many = producer.send_many([Message(topic, b"many-%d" % at) for at in range(5)])
        assert len(many.message_id.split(",")) == 5
        producer.send_oneway(Message(topic, b"oneway"), queue=one.queue)
        waits = producer.send(Message(topic, b"later"), delay=timedelta(hours=1))
        assert producer.recall(waits) == waits.message_id
        assert one.queue in producer.fetch_queues(topic)
        last = producer.send(Message(topic, b"last"), queue=one.queue)  # behind the one-way one
        assert last.queue_offset == (3 if many.queue != one.queue else 8)
    expected = [b"one", b"two", b"oneway", b"last", *(b"many-%d" % at for at in range(5))]
    assert sorted(stored(namesrv, topic)) == sorted(expected)


def test_errors_are_those_of_the_asyncio_client(namesrv: str) -> None:
    """Wrong messages and wrong states are refused by name, a dead nameserver is Unavailable."""
    producer = Producer("senders", namesrv=namesrv)
    with pytest.raises(InvalidUse, match="not started"):
        producer.send(Message("t", b"x"))
    with producer:
        with pytest.raises(InvalidMessage):
            producer.send(Message("bad topic!", b"x"))
        with pytest.raises(InvalidMessage):
            producer.send_soon(Message("t", b""))
        with pytest.raises(InvalidUse, match="started already"):
            producer.start()
        producer.send(Message(new_topic(), b"x"))  # neither did any harm
    with pytest.raises(InvalidUse, match="not started, or closed"):
        producer.send(Message("t", b"x"))
    producer.close()  # a second time is no error
    settings = ProducerSettings(send_timeout_ms=200)
    with Producer(namesrv="127.0.0.1:1", settings=settings) as lost, pytest.raises(Unavailable):
        lost.send(Message("t", b"x"))


def test_a_producer_starts_again_after_its_close(namesrv: str) -> None:
    """With a thread that is a new one, or that of another client."""
    producer = Producer("senders", namesrv=namesrv)
    for _ in range(3):
        with producer:
            producer.send(Message("again", b"x"))
        assert not [each for each in threading.enumerate() if each.name == "aerobee-client"]
    assert repr(producer) == "<aerobee.client.sync.Producer 'senders', closed>"


def test_many_threads_share_a_producer_and_a_loop(namesrv: str) -> None:
    """Each gets its own answers; all clients of the process live on one thread."""
    topic = new_topic()
    with Producer("a", namesrv=namesrv) as one, Producer("b", namesrv=namesrv) as two:

        def send(number: int) -> list[tuple[bytes, SendResult]]:
            producer = (one, two)[number % 2]
            bodies = [b"%d-%d" % (number, at) for at in range(50)]
            return [(body, producer.send(Message(topic, body))) for body in bodies]

        with ThreadPoolExecutor(16) as pool:
            answers = [each for part in pool.map(send, range(16)) for each in part]
        assert [each.name for each in threading.enumerate()].count("aerobee-client") == 1
        places = {(result.queue, result.queue_offset): body for body, result in answers}
        assert len(places) == 800
    with PullConsumer("readers", namesrv=namesrv) as consumer:
        for (queue, offset), body in list(places.items())[::40]:
            assert consumer.pull(queue, offset, messages_max=1).messages[0].body == body


def test_sends_that_are_on_their_way(namesrv: str) -> None:
    """A handle for each at once; `flush` and the close wait for all of them."""
    topic = new_topic()
    with Producer("soon", namesrv=namesrv) as producer:
        handles = [producer.send_soon(Message(topic, b"%d" % at)) for at in range(3_000)]
        assert handles[-1].result(timeout_ms=20_000).status is SendStatus.SEND_OK
        producer.flush(timeout_ms=20_000)
        assert all(handle.done and handle.error is None for handle in handles)
        late = [producer.send_soon(Message(topic, b"late")) for _ in range(100)]
    assert all(handle.done and handle.error is None for handle in late)
    assert len(stored(namesrv, topic)) == 3_100


def test_messages_are_found(namesrv: str) -> None:
    """By each kind of client."""
    topic = new_topic()
    with Producer("senders", namesrv=namesrv) as producer:
        producer.send(Message(topic, b"x", keys="k"))
        consumer = LitePullConsumer("finders", namesrv=namesrv)
        consumer.subscribe(topic)
        with consumer:
            found = [
                [each.body for each in who.find(topic, key="k")] for who in (producer, consumer)
            ]
    assert found == [[b"x"], [b"x"]]
