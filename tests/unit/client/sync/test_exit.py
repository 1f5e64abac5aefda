"""The end of the interpreter, with clients that nobody has closed."""

import time

from support.programs import run_program

from aerobee.client.sync import ConsumeFrom, LitePullConsumer, PullConsumer

UNANSWERED = """
import sys
from aerobee.client.sync import *

producer = Producer(namesrv=sys.argv[1])
producer.start()
handles = [producer.send_soon(Message(sys.argv[2], b"%d" % at)) for at in range(500)]
print(len(handles))
"""


def test_what_was_sent_is_answered(namesrv: str) -> None:
    """Though the program ends with the call."""
    assert run_program(UNANSWERED, namesrv, "unanswered") == "500\n"
    with PullConsumer("readers", namesrv=namesrv) as consumer:
        queues = consumer.fetch_queues("unanswered")
        assert sum(map(consumer.newest_offset, queues)) == 500


HANDLED = """
import sys, threading
from aerobee.client.sync import *

topic, seen, enough = sys.argv[2], [], threading.Event()
with Producer(namesrv=sys.argv[1]) as producer:
    producer.send_many([Message(topic, b"%d" % at) for at in range(50)])

def handle(message):
    seen.append(message)
    if len(seen) == 50:
        enough.set()

consumer = PushConsumer(topic, namesrv=sys.argv[1], consume_from=ConsumeFrom.FIRST)
consumer.subscribe(topic, handle)
consumer.start()
assert enough.wait(20)
"""


def committed(namesrv: str, group: str, topic: str) -> int:
    """Return how many messages of a topic a group is done with."""
    with PullConsumer(group, namesrv=namesrv) as consumer:
        return sum(consumer.committed(queue) or 0 for queue in consumer.fetch_queues(topic))


def test_what_was_handled_is_committed(namesrv: str) -> None:
    """And the members of the group know at once that this one is gone."""
    assert run_program(HANDLED, namesrv, "left") == ""
    assert committed(namesrv, "left", "left") == 50


POLLED = """
import sys
from aerobee.client.sync import *

topic = sys.argv[2]
with Producer(namesrv=sys.argv[1]) as producer:
    queue = producer.send(Message(topic, b"0")).queue
    producer.send(Message(topic, b"1"), queue=queue)
consumer = LitePullConsumer(topic, namesrv=sys.argv[1], consume_from=ConsumeFrom.FIRST)
consumer.subscribe(topic)
consumer.start()
next(consumer)
next(consumer)
"""


def test_what_was_polled_last_comes_again(namesrv: str) -> None:
    """Nobody has said that it was worked on; what is before it is done."""
    assert run_program(POLLED, namesrv, "unfinished") == ""
    assert committed(namesrv, "unfinished", "unfinished") == 1
    consumer = LitePullConsumer("unfinished", namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
    consumer.subscribe("unfinished")
    with consumer:
        assert next(consumer).body == b"1"


HANGING = """
import sys, threading, time
from aerobee.client.sync import *

topic, begun = sys.argv[2], threading.Event()
with Producer(namesrv=sys.argv[1]) as producer:
    producer.send(Message(topic, b"x"))

def handle(message):
    begun.set()
    time.sleep(1_000)

def send():
    settings = ProducerSettings(send_timeout_ms=600_000)
    with Producer(namesrv="127.0.0.1:1", settings=settings) as lost:
        lost.send(Message(topic, b"x"))

consumer = PushConsumer(
    topic, namesrv=sys.argv[1], consume_from=ConsumeFrom.FIRST,
    settings=PushSettings(handover_timeout_ms=600_000),
)
consumer.subscribe(topic, handle)
consumer.start()
assert begun.wait(20)
threading.Thread(target=send, daemon=True).start()
import aerobee.client.sync.loop_thread as loop_thread
loop_thread.EXIT_S = 1.0
"""


def test_the_end_takes_a_bounded_time(namesrv: str) -> None:
    """With a handler that hangs and a send that waits, the process goes, and says so."""
    began_s = time.monotonic()
    printed = run_program(HANGING, namesrv, "hangs")
    assert "clients were not closed within" in printed
    assert time.monotonic() - began_s < 30


COLLECTED = """
import sys
from aerobee.client.sync import *

class Node:
    pass

node = Node()
node.node, node.producer = node, Producer("circle", namesrv=sys.argv[1])
node.producer.start()
node.producer.send(Message(sys.argv[2], b"x"))
other = Producer("other", namesrv=sys.argv[1])
other.start()
handles = [other.send_soon(Message(sys.argv[2], b"x")) for _ in range(200)]
del node  # a circle: some collection finds it, sooner or later
"""


def test_a_client_in_a_circle_ends_with_the_interpreter(namesrv: str) -> None:
    """Whether a collection finds it first, and says so, or the end does; another one is closed."""
    lines = run_program(COLLECTED, namesrv, "circles").splitlines()
    assert all("ResourceWarning" in line or line.startswith("  ") for line in lines), lines
    with PullConsumer("readers", namesrv=namesrv) as consumer:
        queues = consumer.fetch_queues("circles")
        assert sum(map(consumer.newest_offset, queues)) == 201
