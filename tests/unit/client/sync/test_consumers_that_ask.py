"""Lite pull and pull consumers that wait: batches, iteration, what counts as consumed."""

import threading

import pytest
from support.programs import run_program

from aerobee.client.settings import PullSettings
from aerobee.client.sync import (
    ConsumeFrom,
    InvalidUse,
    LitePullConsumer,
    LitePullSettings,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PullResult,
    PullStatus,
    RouteMissing,
)
from aerobee.remoting.errors import AerobeeError


def fill(namesrv: str, topic: str, count: int) -> MessageQueue:
    """Send messages "0" to "count - 1" into one queue, and return it."""
    with Producer(namesrv=namesrv) as producer:
        return producer.send_many([Message(topic, b"%d" % at) for at in range(count)]).queue


def made(namesrv: str, group: str) -> LitePullConsumer:
    """Return a consumer that begins with the first message."""
    return LitePullConsumer(
        group, namesrv=namesrv, settings=LitePullSettings(), consume_from=ConsumeFrom.FIRST
    )


def committed(namesrv: str, group: str, queue: MessageQueue) -> int | None:
    """Return a group's offset, as its broker has it."""
    with PullConsumer(group, namesrv=namesrv) as consumer:
        return consumer.committed(queue)


def test_polls_and_iteration(namesrv: str) -> None:
    """All messages in order; what was asked beyond is committed on a clean exit, not more."""
    queue = fill(namesrv, "polled", 100)
    consumer = LitePullConsumer(
        "polls",
        namesrv=namesrv,
        settings=LitePullSettings(pull=PullSettings(batch_messages=32)),  # a poll has these
        consume_from=ConsumeFrom.FIRST,
    )
    consumer.subscribe("polled")
    with consumer:
        bodies = [message.body for message in consumer.poll(20_000)]
        for message in consumer:
            bodies.append(message.body)
            if message.body == b"60":
                break
        assert queue in consumer.assignment()
        assert consumer.statistics()[queue]
        assert "queue_messages" in {sample.name for sample in consumer.samples()}
    assert bodies == [b"%d" % at for at in range(61)]
    assert committed(namesrv, "polls", queue) == 61
    assert list(consumer) == []  # closed


def test_after_an_error_what_was_handed_out_last_comes_again(namesrv: str) -> None:
    """By `with`, and by a close in the `finally` of a block that failed."""
    queue = fill(namesrv, "broken", 3)
    consumer = made(namesrv, "breaks")
    consumer.subscribe("broken")
    with pytest.raises(ZeroDivisionError), consumer:
        assert next(consumer).body == b"0"
        assert next(consumer).body == b"1"
        raise ZeroDivisionError
    assert committed(namesrv, "breaks", queue) == 1
    consumer.start()
    with pytest.raises(ZeroDivisionError):
        try:
            assert next(consumer).body == b"1"
            raise ZeroDivisionError
        finally:
            consumer.close()
    assert committed(namesrv, "breaks", queue) == 1


def test_each_thread_counts_its_own_batches(namesrv: str) -> None:
    """What one works on is not done because another one asks for more."""
    queue = fill(namesrv, "shared", 4)
    consumer = made(namesrv, "shares")
    consumer.subscribe("shared")
    with consumer:
        mine = next(consumer)
        others: list[bytes] = []

        def work() -> None:
            others.extend(next(consumer).body for _ in range(3))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(20)
        assert (mine.body, others) == (b"0", [b"1", b"2", b"3"])
        consumer.put_back([mine])  # else it would count as well
        assert next(consumer).body == b"0"
        assert consumer.poll(0) == []  # the thread has ended: all four are done
        consumer.commit()
        assert consumer.committed(queue) == 4


def test_given_queues_seeks_and_offsets(namesrv: str) -> None:
    """Assigned before the start and later, sought, paused, committed by the user's word."""
    queue = fill(namesrv, "given", 20)
    consumer = made(namesrv, "gives")
    with pytest.raises(InvalidUse):
        consumer.poll()
    consumer.assign([queue])
    changes: list[tuple[str, int]] = []
    consumer.on_topic_queues_changed("given", lambda topic, queues: changes.append((topic, 0)))
    with consumer:
        assert consumer.poll(20_000)[0].body == b"0"
        consumer.seek(queue, 15)
        assert consumer.poll(20_000)[0].body == b"15"
        consumer.seek_to_begin(queue)
        assert consumer.poll(20_000)[0].body == b"0"
        consumer.seek_to_end(queue)
        consumer.pause([queue])
        consumer.resume([queue])
        consumer.commit({queue: 7})
        assert consumer.committed(queue) == 7
        assert consumer.offset_for_timestamp(queue, 0) == 0
        assert queue in consumer.fetch_queues("given")
        consumer.assign([])
        assert consumer.assignment() == []


def test_a_close_ends_an_iteration_in_another_thread(namesrv: str) -> None:
    """As it ends `async for`."""
    consumer = made(namesrv, "ends")
    consumer.subscribe("ends")
    ended: list[bool] = []

    def work() -> None:
        for _ in consumer:
            raise AssertionError
        ended.append(True)

    consumer.start()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(0.1)
    consumer.close()
    thread.join(20)
    assert ended == [True]


SERVING = """
import os, signal, sys
from aerobee.client.sync import *

topic, bodies = sys.argv[2], []
consumer = LitePullConsumer(topic, namesrv=sys.argv[1], consume_from=ConsumeFrom.FIRST)
consumer.subscribe(topic)

def polls(consumer):
    while True:
        bodies.extend(message.body for message in consumer.poll(60_000))
        if len(bodies) == 40:
            signal.setitimer(signal.ITIMER_REAL, 0.2)  # it comes while the next poll waits

def iterates(consumer):
    for message in consumer:
        bodies.append(message.body)
        if len(bodies) == 20:
            os.kill(os.getpid(), signal.SIGTERM)
    print("the loop came to its end")

signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
consumer.run(polls if sys.argv[3] == "polls" else iterates)
print(len(bodies), consumer)
"""


@pytest.mark.parametrize(("way", "count"), [("polls", 40), ("iterates", 20)])
def test_work_ends_with_a_signal(namesrv: str, way: str, count: int) -> None:
    """A poll that waits does not return, an iteration ends; all that was had is committed."""
    topic = f"serving-{way}"
    queue = fill(namesrv, topic, 40)
    printed = run_program(SERVING, namesrv, topic, way)
    assert ("the loop came to its end" in printed) == (way == "iterates")
    assert f"{count} <aerobee.client.sync.LitePullConsumer '{topic}', closed>" in printed
    assert committed(namesrv, topic, queue) == count


def test_work_may_end_by_itself_or_fail(namesrv: str) -> None:
    """After an error what was handed out last comes again."""
    queue = fill(namesrv, "worked", 3)
    consumer = made(namesrv, "works")
    consumer.subscribe("worked")
    consumer.run(lambda consumer: next(consumer))
    assert committed(namesrv, "works", queue) == 1

    def fails(consumer: LitePullConsumer) -> None:
        assert [next(consumer).body, next(consumer).body] == [b"1", b"2"]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        consumer.run(fails)
    assert committed(namesrv, "works", queue) == 2


def test_pulls(namesrv: str) -> None:
    """At once, as soon as there is something, with a callback that may call its client."""
    queue = fill(namesrv, "pulled", 5)
    got: list[PullResult | AerobeeError] = []
    called = threading.Event()
    with PullConsumer("pulls", namesrv=namesrv) as consumer:

        def brought(outcome: PullResult | AerobeeError) -> None:
            got.append(outcome)
            got.append(consumer.pull(queue, 4))
            called.set()

        assert [m.body for m in consumer.pull(queue, 3).messages] == [b"3", b"4"]
        assert consumer.pull(queue, 5).status is PullStatus.NO_NEW_MSG
        thread = threading.Timer(0.05, fill, (namesrv, "pulled", 0 + 1))
        thread.start()
        results = {each: consumer.newest_offset(each) for each in consumer.fetch_queues("pulled")}
        assert results[queue] >= 5
        consumer.pull_with_callback(queue, 0, brought)
        assert called.wait(20)
        assert all(isinstance(each, PullResult) for each in got)
        consumer.pull_oneway(queue, 0)
        assert consumer.pull_when_available(queue, 0).messages[0].body == b"0"
        consumer.commit(queue, 2)
        assert consumer.committed(queue) == 2
        assert consumer.oldest_offset(queue) == 0
        assert consumer.offset_for_timestamp(queue, 0) == 0
        thread.join()
        with pytest.raises(RouteMissing):
            consumer.fetch_queues("there-is-none")
        with pytest.raises(InvalidUse):
            consumer.pull(queue, -1)
