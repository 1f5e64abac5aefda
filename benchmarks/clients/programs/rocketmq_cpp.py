"""The Python binding of RocketMQ's C++ client, rocketmq-client-python, against our broker."""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from rocketmq.client import Message, Producer, PushConsumer, RecvMessage
from rocketmq.exceptions import ProducerSendSyncFailed
from rocketmq.ffi import dll

from benchmarks.clients.programs.meter import SETTLE_S, TASKS, Run, Taken, address, serve

SECONDS_MAX: Final = 60.0


def _producer(run: Run) -> Any:
    """Start one; threads that look for a route at once do not find it, so one sends first."""
    producer = Producer("clients")
    producer.set_namesrv_addr(address())
    producer.start()
    for number in run.order.warm_numbers():
        _send(run, producer, number)
        run.acked += 1
    return producer


def _send(run: Run, producer: Any, number: int) -> None:
    message = Message(run.order.topic)
    message.set_tags("tag")
    message.set_keys(f"key-{number}")
    message.set_body(run.bodies.of(number))
    result = producer.send_sync(message)
    if result.status != 0:
        run.fail(result.status)


def threads(run: Run) -> int:
    """`send_sync` in 64 threads: it has no other send that is acknowledged."""
    producer, numbers = _producer(run), run.order.some_numbers()
    counted: list[int] = []
    timeouts: list[int] = []  # threads that wait for one lock inside the client; stored or not
    run.clock.begin()
    until = time.perf_counter() + run.order.seconds

    def some() -> None:
        sent = 0
        while time.perf_counter() < until and not run.errors:
            number = next(numbers)
            try:
                _send(run, producer, number)
            except ProducerSendSyncFailed:
                timeouts.append(number)
            else:
                sent += 1
        counted.append(sent)

    every = [threading.Thread(target=some) for _ in range(TASKS)]
    for each in every:
        each.start()
    for each in every:
        each.join()
    run.clock.end()
    run.acked += sum(counted)
    run.more["timeouts"] = len(timeouts)
    producer.shutdown()
    return sum(counted)


def lone(run: Run) -> int:
    """`send_sync`, one after the other."""
    producer = _producer(run)
    run.clock.begin()
    for number in run.order.numbers():
        began = time.perf_counter()
        _send(run, producer, number)
        run.took.append(time.perf_counter() - began)
    run.clock.end()
    run.acked += len(run.took)
    producer.shutdown()
    return len(run.took)


def trip(run: Run) -> int:
    """`send_sync`, and a push consumer's callback, in a thread of its own."""
    arrived: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    producer = _producer(run)
    consumer = _consumer(run, lambda message: arrived.put(RecvMessage(message).body))
    for _ in run.order.warm_numbers():
        arrived.get(timeout=SECONDS_MAX)
    run.clock.begin()
    for number in run.order.numbers():
        began = time.perf_counter()
        _send(run, producer, number)
        body = arrived.get(timeout=SECONDS_MAX)
        run.took.append(time.perf_counter() - began)
        if body != run.bodies.of(number):
            run.fail(f"message {number} was sent, {body[:32]!r} came")
    run.clock.end()
    run.acked += len(run.took)
    consumer.shutdown()
    producer.shutdown()
    return len(run.took)


def _consumer(run: Run, take: Callable[[Any], None]) -> Any:
    def one(_: object, message: Any) -> int:
        take(message)
        return 0

    consumer = PushConsumer(run.order.group)
    consumer.set_namesrv_addr(address())
    consumer.set_thread_count(20)
    consumer.set_message_batch_max_size(1)
    dll.Subscribe(consumer._handle, run.order.topic.encode(), b"*")
    consumer._register_callback(one)
    consumer.start()
    return consumer


def singles(run: Run) -> int:
    """A push consumer with 20 threads of its own, one message each."""
    taken, lock, done = Taken(run), threading.Lock(), threading.Event()

    def one(message: Any) -> None:
        body = RecvMessage(message).body
        with lock:
            taken.add_one(body)
        if taken.done:
            done.set()

    consumer = _consumer(run, one)
    if not done.wait(SECONDS_MAX):
        run.fail("not everything came")
    time.sleep(SETTLE_S)
    consumer.shutdown()
    return taken.measured()


if __name__ == "__main__":
    serve({"send-64": threads, "lone": lone, "trip": trip, "singles": singles})
