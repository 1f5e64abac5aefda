"""confluent-kafka: librdkafka, which sends and fetches in threads of its own."""

import json
import time
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.clients.programs.meter import (
    SETTLE_S,
    TASKS,
    Run,
    Taken,
    address,
    anonymous_bytes,
    serve,
)

PARTITIONS: Final = 4
POLL_MASK: Final = 127  # callbacks are served once for so many messages
CONSUME_MESSAGES: Final = 1_000
FETCHED_MESSAGES: Final = 100_000
SECONDS_MAX: Final = 60.0
LEADERS_SECONDS_MAX: Final = 10.0
THROUGHPUT: Final = {"linger.ms": 20, "batch.num.messages": 10_000, "acks": "all"}
AT_ONCE: Final = {"linger.ms": 0, "acks": "all"}


class Sending:
    """A producer whose callback counts what was delivered."""

    def __init__(self, run: Run, settings: dict[str, Any]) -> None:
        self.run = run
        self.producer = Producer({"bootstrap.servers": address(), **settings})
        self.sent = 0
        self._before = _stored(run.order.topic)
        for number in run.order.warm_numbers():
            self.send(number)
        self.flush()

    def send(self, number: int) -> None:
        """Hand one over; wait for room where the client's queue is full."""
        while True:
            try:
                self.producer.produce(
                    self.run.order.topic,
                    self.run.bodies.of(number),
                    key=f"key-{number}",
                    on_delivery=self._delivered,
                )
            except BufferError:
                self.producer.poll(0.01)
            else:
                self.sent += 1
                return

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        if self.producer.flush(SECONDS_MAX):
            self.run.fail("not everything was delivered")

    def check(self) -> None:
        """Hold what is stored against what was acknowledged."""
        if self.run.acked != self.sent:
            self.run.fail(f"{self.sent} sent, {self.run.acked} acknowledged")
        self.run.expect_stored(self._before, _stored(self.run.order.topic))

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.run.acked += 1
        else:
            self.run.fail(error)


def full(run: Run) -> int:
    """As fast as it goes, a callback for each message."""
    sending = Sending(run, THROUGHPUT)
    before, poll = sending.sent, sending.producer.poll
    run.clock.begin()
    for number in run.order.numbers():
        sending.send(number)
        if not number & POLL_MASK:
            poll(0)
    sending.flush()
    run.clock.end()
    sending.check()
    return sending.sent - before


def open_64(run: Run) -> int:
    """64 not yet acknowledged at a time."""
    sending = Sending(run, AT_ONCE)
    before, poll = sending.sent, sending.producer.poll
    run.clock.begin()
    for number in run.order.numbers():
        sending.send(number)
        while sending.sent - run.acked >= TASKS and not run.errors:
            poll(0.1)
    sending.flush()
    run.clock.end()
    sending.check()
    return sending.sent - before


def lone(run: Run) -> int:
    """One after the other."""
    sending = Sending(run, AT_ONCE)
    poll = sending.producer.poll
    run.clock.begin()
    for number in run.order.numbers():
        began = time.perf_counter()
        sending.send(number)
        while run.acked < sending.sent and not run.errors:
            poll(0.1)
        run.took.append(time.perf_counter() - began)
    run.clock.end()
    sending.check()
    return len(run.took)


def trip(run: Run) -> int:
    """`produce`, and `poll` of a consumer."""
    sending, consumer = Sending(run, AT_ONCE), _consumer(run)
    came, until = 0, time.monotonic() + SECONDS_MAX
    while came < sending.sent and time.monotonic() < until:
        came += consumer.poll(1.0) is not None
    run.clock.begin()
    for number in run.order.numbers():
        began = time.perf_counter()
        sending.send(number)
        message = consumer.poll(10.0)
        run.took.append(time.perf_counter() - began)
        sending.producer.poll(0)
        if message is None or _body(message) != run.bodies.of(number):
            run.fail(f"message {number} did not come")
            break
    run.clock.end()
    sending.flush()
    sending.check()
    consumer.close()
    return len(run.took)


def _settings(run: Run) -> dict[str, Any]:
    return {
        "bootstrap.servers": address(),
        "group.id": run.order.group,
        "auto.offset.reset": "earliest",
    }


def _consumer(run: Run, **more: Any) -> Any:
    consumer = Consumer({**_settings(run), **more})
    consumer.subscribe([run.order.topic])
    return consumer


def _begun(run: Run, taken: Taken) -> Any:
    """Return a consumer that begins to fetch as the clock begins, not before."""
    consumer, assigned = Consumer(_settings(run)), []

    def hold(_: Any, partitions: Any) -> None:
        consumer.assign(partitions)
        consumer.pause(partitions)
        assigned.extend(partitions)

    consumer.subscribe([run.order.topic], on_assign=hold)
    until = time.monotonic() + SECONDS_MAX
    while not assigned and time.monotonic() < until:
        if consumer.poll(0.1) is not None:
            run.fail("a message came of a partition that is paused")
    taken.begin()
    consumer.resume(assigned)
    return consumer


def _body(message: Any) -> bytes:
    if message.error() is not None:
        raise KafkaException(message.error())
    body: bytes = message.value()
    return body


def batches(run: Run) -> int:
    """`consume`, up to 1,000 at a time."""
    taken = Taken(run)
    consumer = _begun(run, taken)
    until = time.monotonic() + SECONDS_MAX
    while not taken.done and time.monotonic() < until:
        messages = consumer.consume(CONSUME_MESSAGES, 0.1)
        if messages:
            taken.add([_body(message) for message in messages])
    if consumer.consume(1, SETTLE_S):
        run.fail("more came than there was")
    consumer.close()
    return taken.measured()


def singles(run: Run) -> int:
    """`poll`, one at a time."""
    taken = Taken(run)
    consumer = _begun(run, taken)
    poll, until = consumer.poll, time.monotonic() + SECONDS_MAX
    while not taken.done:
        message = poll(0.1)
        if message is not None:
            taken.add_one(_body(message))
        elif time.monotonic() > until:
            break
    if consumer.poll(SETTLE_S) is not None:
        run.fail("more came than there was")
    consumer.close()
    return taken.measured()


def ahead(run: Run) -> int:
    """What its queues hold by its own statistics, handing out next to nothing."""
    held = 0

    def told(text: str) -> None:
        nonlocal held
        topic = json.loads(text)["topics"].get(run.order.topic, {"partitions": {}})
        # all of them lie in one queue, whose length each of them tells
        held = max((each["fetchq_cnt"] for each in topic["partitions"].values()), default=0)

    before = anonymous_bytes()
    settings = {
        "queued.min.messages": 4 * FETCHED_MESSAGES,
        "queued.max.messages.kbytes": 1 << 20,
        "statistics.interval.ms": 100,
        "stats_cb": told,
    }
    consumer = _consumer(run, **settings)
    run.clock.begin()
    until = time.monotonic() + SECONDS_MAX
    handed_out = 0
    while held + handed_out < run.order.count:
        handed_out += consumer.poll(0) is not None
        time.sleep(0.05)
        if time.monotonic() > until:
            run.fail(f"{held} fetched ahead of {run.order.count}")
            break
    run.clock.end()
    found = held  # closing it tells of an empty queue
    run.more["bytes_each"] = (anonymous_bytes() - before) / max(found, 1)
    consumer.close()
    return found


def prepare(run: Run) -> int:
    """Make a topic, unless it is there."""
    admin = AdminClient({"bootstrap.servers": address()})
    made = admin.create_topics(
        [NewTopic(run.order.topic, num_partitions=PARTITIONS, replication_factor=1)]
    )
    try:
        made[run.order.topic].result(SECONDS_MAX)
    except KafkaException as error:
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
            raise
    return 0


def _stored(topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": address(), "group.id": "watermarks"})
    until = time.monotonic() + LEADERS_SECONDS_MAX
    while True:
        try:
            ends = [
                consumer.get_watermark_offsets(TopicPartition(topic, partition), SECONDS_MAX)[1]
                for partition in range(PARTITIONS)
            ]
        except KafkaException:  # of a topic that was just made, whose leader is not known yet
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            consumer.close()
            return sum(ends)


if __name__ == "__main__":
    serve(
        {
            "prepare": prepare,
            "send": full,
            "send-64": open_64,
            "lone": lone,
            "trip": trip,
            "batches": batches,
            "singles": singles,
            "ahead": ahead,
        }
    )
