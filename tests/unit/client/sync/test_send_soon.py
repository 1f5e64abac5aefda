"""`send_soon` of the producer that waits: an outcome for each message, within bounds."""

import asyncio
import contextlib
import contextvars
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aerobee.client import Producer as AsyncProducer
from aerobee.client.sync import (
    ConnectionLost,
    InvalidMessage,
    InvalidUse,
    Message,
    MessageQueue,
    Producer,
    ProducerSettings,
    PullConsumer,
    SendContext,
    SendHandle,
    SendHook,
    SendQueueFull,
    SendStatus,
    Unavailable,
)
from aerobee.client.sync import soon as sends_soon

COST = 1_000  # of a message with the body below
BODY = b"x" * (COST - 128)


def new_topic() -> str:
    """Return a name that no other test uses."""
    return f"t-{uuid.uuid4().hex[:12]}"


def stored(namesrv: str, queue: MessageQueue) -> list[bytes]:
    """Return the bodies that a queue holds, in its order."""
    with PullConsumer("readers", namesrv=namesrv) as consumer:
        end, offset, bodies = consumer.newest_offset(queue), 0, []
        while offset < end:
            result = consumer.pull(queue, offset)
            bodies += [message.body for message in result.messages]
            offset = result.next_offset
        return bodies


@contextlib.contextmanager
def loop_held(producer: Producer) -> Iterator[None]:
    """Keep the loop's thread from all else within a block."""
    held, go = threading.Event(), threading.Event()

    def wait() -> None:
        held.set()
        go.wait(20)

    waiting = threading.Thread(target=producer._in_loop, args=(wait,))
    waiting.start()
    assert held.wait(20)
    try:
        yield
    finally:
        go.set()
        waiting.join(20)


def all_stored(handles: list[SendHandle]) -> bool:
    """Wait for all of them, and say whether each is stored."""
    return all(handle.result(20_000).status is SendStatus.SEND_OK for handle in handles)


def test_threads_send_in_their_own_orders(namesrv: str) -> None:
    """Of each thread the messages to a chosen queue are stored as it has sent them, once each."""
    topic = new_topic()
    with Producer("soon", namesrv=namesrv) as producer:
        queue = producer.send(Message(topic, b"warm")).queue

        def send(number: int) -> None:
            for at in range(500):
                producer.send_soon(Message(topic, b"%d %03d" % (number, at)), queue=queue)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    bodies = [body.split() for body in stored(namesrv, queue)[1:]]
    for number in range(4):
        mine = [int(at) for who, at in bodies if int(who) == number]
        assert mine == list(range(500))


@pytest.mark.parametrize("by", ["bytes", "count"])
def test_who_has_one_more_waits_or_is_refused(
    namesrv: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a hundred messages are on their way, which is what their bytes allow, or their number."""
    topic, begun = new_topic(), list[SendHandle]()
    settings = ProducerSettings(send_soon_bytes_max=100 * COST if by == "bytes" else 2**30)
    if by == "count":
        monkeypatch.setattr(sends_soon, "MESSAGES_MAX", 100)
        monkeypatch.setattr(sends_soon, "MARK_MESSAGES", 10)
    with Producer("soon", namesrv=namesrv, settings=settings) as producer:

        def send() -> None:
            for _ in range(1_000):
                begun.append(producer.send_soon(Message(topic, BODY)))

        with loop_held(producer):
            thread = threading.Thread(target=send)
            thread.start()
            while len(begun) < 100:
                thread.join(0.005)
            thread.join(0.1)
            assert (len(begun), producer.held, producer.held_bytes) == (100, 100, 100 * COST)
            assert producer.full
            with pytest.raises(SendQueueFull, match=r"room\(\)") as refused:
                producer.send_soon(Message(topic, BODY), block=False)
            assert isinstance(refused.value, BufferError)
            assert (refused.value.messages, refused.value.held_bytes) == (100, 100 * COST)
            waits: list[Callable[..., object]] = [
                producer.room, producer.flush, begun[0].result, begun[0].exception
            ]  # fmt: skip
            for wait in waits:
                with pytest.raises(TimeoutError, match="20 ms"):
                    wait(timeout_ms=20)
            assert not begun[0].done and begun[0].error is None
        thread.join(20)
        producer.room()
        producer.flush(timeout_ms=20_000)
        assert (producer.full, producer.held, producer.held_bytes) == (False, 0, 0)
        assert len(begun) == 1_000 and all_stored(begun)


def test_threads_that_see_the_same_room_are_all_served(namesrv: str) -> None:
    """More than the asyncio producer takes at a time keeps its order, and is flushed."""
    settings = ProducerSettings(send_soon_bytes_max=20 * COST)
    with Producer("soon", namesrv=namesrv, settings=settings) as producer:
        queue = producer.send(Message(new_topic(), b"warm")).queue
        soon = producer._soon
        assert soon is not None
        with loop_held(producer):
            for at in range(100):  # what `send_soon` does once it has found room
                message = Message(queue.topic, b"%03d" % at + BODY)
                handle = soon.add(message, (queue, None, None, None))
        assert handle.result(20_000).queue_offset == 100
        for at in range(100):
            soon.add(Message(queue.topic, b"%03d" % at + BODY), (queue, None, None, None))
        producer.flush(20_000)
        assert producer.held == 0
    bodies = [int(body[:3]) for body in stored(namesrv, queue)[1:]]
    assert bodies == 2 * list(range(100))


def test_a_message_is_sent_as_it_was_when_it_was_given(namesrv: str) -> None:
    """A program may fill the same object again at once."""
    topic = new_topic()
    with Producer("soon", namesrv=namesrv) as producer:
        queue = producer.send(Message(topic, b"warm")).queue
        message = Message(topic, b"", properties={"at": ""})
        with loop_held(producer):
            for at in range(20):
                message.body, message.properties["at"] = b"%d" % at, f"p{at}"
                producer.send_soon(message, queue=queue)
            message.topic, message.body = "another", b"never"
        producer.flush()
        with PullConsumer("readers", namesrv=namesrv) as consumer:
            found = consumer.pull(queue, 1).messages
    assert [each.body for each in found] == [b"%d" % at for at in range(20)]
    assert [each.properties["at"] for each in found] == [f"p{at}" for at in range(20)]


def test_each_handle_has_its_own_error(namesrv: str) -> None:
    """What is known at once is raised at once; the rest is its handle's, and nobody else's."""

    def lost(queues: object, message: object) -> MessageQueue:
        raise LookupError("no queue for this one")

    with Producer("soon", namesrv=namesrv) as producer:
        large = Message("t", b"x" * (4 * 1024 * 1024 + 1))
        for wrong in (Message("t", b""), large, Message("bad topic!", b"x")):
            with pytest.raises(InvalidMessage):
                producer.send_soon(wrong)
        queue = producer.send(Message(new_topic(), b"warm")).queue
        topic = queue.topic
        no_queue = producer.send_soon(Message(topic, b"x"), selector=lost)
        elsewhere = producer.send_soon(Message(topic, b"x"), queue=queue._replace(topic="no"))
        with pytest.raises(InvalidUse, match="give one of queue, key and selector"):
            producer.send_soon(Message(topic, b"x"), queue=queue, key="k")
        good = producer.send_soon(Message(topic, b"x"), queue=queue)
        assert good.result().queue_offset == 1
        assert good.exception() is None and good.error is None
        assert (good.queue, good.message_id) == (queue, good.result().message_id)
        failed: list[tuple[SendHandle, type[Exception]]] = [
            (no_queue, LookupError),
            (elsewhere, InvalidUse),
        ]
        for handle, kind in failed:
            assert isinstance(handle.exception(), kind) and handle.error is handle.exception()
            for _ in range(2):
                with pytest.raises(kind):
                    handle.result()
    with pytest.raises(InvalidUse, match="not started, or closed"):
        producer.send_soon(Message(topic, b"x"))
    assert good.done and good.result().queue_offset == 1  # the close takes nothing away


def test_failures_are_told_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    """Also of handles that nobody keeps."""
    settings = ProducerSettings(send_timeout_ms=100)
    with Producer(namesrv="127.0.0.1:1", settings=settings) as producer:
        kept, *_ = [producer.send_soon(Message("t", b"x")) for _ in range(20)]
        producer.flush()
        assert isinstance(kept.error, Unavailable)
        with pytest.raises(Unavailable):
            kept.result()
    told = re.findall(r"sends failed, unawaited count=(\d+)", caplog.text)
    assert sum(map(int, told)) == 20 and len(told) <= 3, "the first, each second, and the rest"


def test_a_loop_that_has_ended_answers_nobody(namesrv: str) -> None:
    """A handle whose answer cannot come any more says so, instead of waiting for ever."""
    producer = Producer("soon", namesrv=namesrv)
    producer.start()
    thread = producer._thread
    assert thread is not None
    with loop_held(producer):
        handle = producer.send_soon(Message("t", b"x"))
        threading.Thread(target=thread.end).start()
        waiting = threading.Thread(target=handle.exception)
        waiting.start()
    waiting.join(20)
    assert not waiting.is_alive()
    thread._thread.join(20)
    late = producer._soon.add(Message("t", b"x"), (None,) * 4)  # type: ignore[union-attr]
    for each in (handle, late):
        assert each.done
        with pytest.raises(InvalidUse, match="loop has ended"):
            each.result()
    producer.close()


NAME: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")


class Heard(SendHook):
    """Notes in whose context it was called."""

    def __init__(self) -> None:
        self.names: dict[bytes, str] = {}

    def before(self, context: SendContext) -> None:
        self.names[context.messages[0].body] = NAME.get()


def test_hooks_are_called_in_the_context_of_who_sends(namesrv: str) -> None:
    """So that a trace goes on, whatever else is on its way; from a loop as from threads."""
    topic, heard = new_topic(), Heard()
    expected = {}
    with Producer("soon", namesrv=namesrv, hooks=[heard]) as producer:
        for at in range(100):
            expected[b"%d" % at] = f"trace-{at}"
            NAME.set(f"trace-{at}")
            producer.send_soon(Message(topic, b"%d" % at))
    assert heard.names == expected

    async def send() -> None:
        async with AsyncProducer("soon", namesrv=namesrv, hooks=[heard]) as producer:
            for at in range(100):
                NAME.set(f"trace-{at}")
                producer.send_soon(Message(topic, b"%d" % at))
            await producer.flush()

    heard.names.clear()
    asyncio.run(send())
    assert heard.names == expected


def test_a_send_that_waits_goes_by_the_lane_and_is_tried_again(
    namesrv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain one has no task; one that the lane fails, or declines, is as ever."""
    with Producer("soon", namesrv=namesrv) as producer:
        queue = producer.send(Message(new_topic(), b"warm")).queue
        producer.send(Message(queue.topic, b"warm"), queue=queue)
        tasks: set[bool] = set()

        def look() -> None:
            assert producer._thread is not None
            tasks.update(call.task is None for call in producer._thread.calls)

        with loop_held(producer):
            threads = [
                threading.Thread(
                    target=producer.send,
                    args=(Message(queue.topic, b"x"),),
                    kwargs={"queue": queue},
                )
                for _ in range(5)
            ]
            for thread in threads:
                thread.start()
            watching = threading.Thread(target=producer._in_loop, args=(look,))
            watching.start()
        for thread in (*threads, watching):
            thread.join(20)
        assert True in tasks
        assert len(stored(namesrv, queue)) >= 6
        with pytest.raises(InvalidUse):
            producer.send(Message(queue.topic, b"x"), queue=queue, key="k")
        with pytest.raises(InvalidMessage):
            producer.send(Message(queue.topic, b""), queue=queue)
        large = producer.send(Message(queue.topic, b"x" * 100_000), queue=queue)
        assert large.queue == queue

        inner, lost = producer._inner, list[object]()
        begin = inner._begin_send

        def begin_and_lose(*arguments: Any, **how: Any) -> Any:
            sent = begin(*arguments, **how)
            lost.append(sent)
            if len(lost) == 1:
                connection = inner._open(queue)
                assert connection is not None
                connection.abort("as by a network")
            return sent

        monkeypatch.setattr(inner, "_begin_send", begin_and_lose)
        again = producer.send(Message(queue.topic, b"again"), queue=queue)
        assert again.status is SendStatus.SEND_OK
        assert isinstance(lost[0].error, ConnectionLost)  # type: ignore[attr-defined]
