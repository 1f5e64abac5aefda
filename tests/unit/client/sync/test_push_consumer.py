"""Push consumers with plain functions for handlers: in threads, failing, closing, told to stop."""

import os
import signal
import threading
import time
from collections import Counter

import pytest

from aerobee.client.sync import (
    ConsumeFrom,
    ConsumeResult,
    InvalidHandler,
    InvalidUse,
    Later,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
    run,
)


def fill(namesrv: str, topic: str, count: int) -> None:
    """Send messages "0" to "count - 1"."""
    with Producer(namesrv=namesrv) as producer:
        producer.send_many([Message(topic, b"%d" % at) for at in range(count)])


def made(namesrv: str, group: str, settings: PushSettings | None = None) -> PushConsumer:
    """Return a consumer that begins with the first message."""
    return PushConsumer(group, namesrv=namesrv, settings=settings, consume_from=ConsumeFrom.FIRST)


def committed(namesrv: str, group: str, topic: str) -> int:
    """Return how many messages of a topic a group is done with."""
    with PullConsumer(group, namesrv=namesrv) as consumer:
        return sum(consumer.committed(queue) or 0 for queue in consumer.fetch_queues(topic))


def test_handlers_run_in_threads_and_may_use_other_clients(namesrv: str) -> None:
    """Several at a time; what is done is committed at the close."""
    fill(namesrv, "handled", 40)
    meeting = threading.Barrier(4)
    seen, all_seen = Counter[bytes](), threading.Event()
    with Producer(namesrv=namesrv) as producer:

        def handle(message: ReceivedMessage) -> None:
            assert threading.current_thread().daemon
            if message.body in (b"0", b"1", b"2", b"3"):
                meeting.wait(20)
            producer.send(Message("answers", message.body))
            seen[message.body] += 1
            if len(seen) == 40:
                all_seen.set()

        consumer = made(namesrv, "handling", PushSettings(concurrency=4))
        consumer.subscribe("handled", handle)
        with consumer:
            assert all_seen.wait(20)
            assert {queue.topic for queue in consumer.queues()} == {"handled"}
            assert consumer.client_id
            assert consumer.running_info().properties["PROP_THREADPOOL_CORE_SIZE"] == "4"
        assert consumer.statistics().handlers.succeeded in (0, 40)  # counted while it runs
        assert "handlers_running" in {sample.name for sample in consumer.samples()}
    assert set(seen.values()) == {1}
    assert committed(namesrv, "handling", "handled") == 40
    assert not [t for t in threading.enumerate() if t.name.startswith("aerobee-client")]


def test_what_fails_comes_again(namesrv: str) -> None:
    """An exception, SystemExit, LATER and a coroutine: all of them are failures."""
    fill(namesrv, "failing", 5)
    times, done = Counter[bytes](), threading.Event()

    def handle(message: ReceivedMessage) -> ConsumeResult | Later | None:
        times[message.body] += 1
        if times[message.body] == 1:
            if message.body == b"0":
                raise ValueError("the first time")
            if message.body == b"1":
                raise SystemExit(1)
            if message.body == b"2":
                return ConsumeResult.LATER
            if message.body == b"3":
                return Later(delay_level=1)
        if len(times) == 5 and min(times[b"%d" % at] for at in range(4)) == 2:
            done.set()
        return None

    settings = PushSettings(max_reconsume_times=3)
    consumer = made(namesrv, "fails", settings)
    consumer.subscribe("failing", handle)
    with consumer:
        assert done.wait(40), times


def test_batches_in_order_and_changes_while_it_runs(namesrv: str) -> None:
    """A list for each call; another topic later, one less; changes of the share are told."""
    fill(namesrv, "listed", 30)
    fill(namesrv, "late", 1)
    bodies: list[bytes] = []
    late, told = threading.Event(), list[tuple[str, int, int]]()
    consumer = PushConsumer("lists", namesrv=namesrv, consume_from=ConsumeFrom.FIRST, ordered=True)

    def handle(messages: list[ReceivedMessage]) -> None:
        bodies.extend(message.body for message in messages)

    def changed(topic: str, queues: list[MessageQueue], mine: list[MessageQueue]) -> None:
        told.append((topic, len(queues), len(mine)))
        assert consumer.queues() is not None  # it may call its client

    consumer.on_queues_changed(changed)
    consumer.subscribe("listed", handle, batch=8)
    with consumer:
        consumer.subscribe("late", lambda message: late.set())
        assert late.wait(20)
        consumer.unsubscribe("late")
        consumer.suspend()
        consumer.resume()
        deadline_s = time.monotonic() + 60
        while len(bodies) < 30 and time.monotonic() < deadline_s:
            time.sleep(0.005)
    assert bodies == [b"%d" % at for at in range(30)]
    assert any(topic == "listed" and mine for topic, _, mine in told)


def test_async_handlers_are_refused(namesrv: str) -> None:
    """They would never be awaited; nor is what takes no message called."""

    async def handle(message: ReceivedMessage) -> None:
        raise AssertionError

    consumer = made(namesrv, "g")
    with pytest.raises(InvalidHandler, match="is async"):
        consumer.subscribe("t", handle)  # type: ignore[arg-type]
    with pytest.raises(InvalidHandler, match="has to take one message"):
        consumer.subscribe("t", lambda: None)  # type: ignore[arg-type, misc]


def test_a_handler_may_close_its_consumer(namesrv: str) -> None:
    """It is not waited for; its message is not done."""
    fill(namesrv, "closing", 1)
    closed = threading.Event()
    consumer = made(namesrv, "closes")

    def handle(message: ReceivedMessage) -> None:
        consumer.close()
        closed.set()

    consumer.subscribe("closing", handle)
    consumer.start()
    assert closed.wait(20)
    assert repr(consumer) == "<aerobee.client.sync.PushConsumer 'closes', closed>"
    assert committed(namesrv, "closes", "closing") == 0


def test_a_handler_that_hangs_holds_the_close_for_a_while_alone(namesrv: str) -> None:
    """Its message comes again to the next member."""
    fill(namesrv, "hanging", 1)
    begun, go, again = threading.Event(), threading.Event(), threading.Event()

    def hang(message: ReceivedMessage) -> None:
        begun.set()
        go.wait(30)

    consumer = made(namesrv, "hangs", PushSettings(handover_timeout_ms=100))
    consumer.subscribe("hanging", hang)
    with consumer:
        assert begun.wait(20)
    consumer = made(namesrv, "hangs")
    consumer.subscribe("hanging", lambda message: again.set())
    with consumer:
        assert again.wait(20)
    go.set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_ends_with_a_signal(namesrv: str, number: signal.Signals) -> None:
    """Offsets are stored, and the signal means again what it did before."""
    topic = f"run-{number.name}"
    fill(namesrv, topic, 10)
    seen: list[bytes] = []
    before = signal.getsignal(number)

    def handle(message: ReceivedMessage) -> None:
        seen.append(message.body)
        if len(seen) == 10:
            os.kill(os.getpid(), number)

    consumer = made(namesrv, topic)
    consumer.subscribe(topic, handle)
    consumer.run()
    assert signal.getsignal(number) is before
    assert committed(namesrv, topic, topic) == 10


def test_run_ends_with_a_close(namesrv: str) -> None:
    """Of another thread, or of a handler; a producer that is run with it outlives it."""
    fill(namesrv, "runs", 1)
    consumer, producer = made(namesrv, "runs"), Producer(namesrv=namesrv)
    answered: list[object] = []

    def handle(message: ReceivedMessage) -> None:
        answered.append(producer.send(Message("answers", b"x")).status)
        producer.close()
        consumer.close()

    consumer.subscribe("runs", handle)
    thread = threading.Thread(target=run, args=(producer, consumer))
    thread.start()
    thread.join(20)
    assert not thread.is_alive() and len(answered) == 1
    assert not (producer.started or consumer.started)
    with pytest.raises(InvalidUse, match="needs a client"):
        run()


def test_who_waits_for_a_close_is_told(namesrv: str) -> None:
    """Any number of threads; at once where there is nothing to wait for."""
    producer = Producer(namesrv=namesrv)
    producer.wait_closed()
    producer.start()
    threads = [threading.Thread(target=producer.wait_closed) for _ in range(3)]
    for thread in threads:
        thread.start()
    threads[0].join(0.05)
    assert threads[0].is_alive()
    producer.close()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
