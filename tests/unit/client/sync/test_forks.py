"""Forks of a process whose clients wait: the parent goes on, the child gets words or a new loop."""

from support.programs import run_program

FORK = """
import os, sys, threading, time
from aerobee.client.sync import *

namesrv, topic = sys.argv[1], sys.argv[2]
producer = Producer("forking", namesrv=namesrv)
described = Producer("forking", namesrv=namesrv)  # and started by whoever needs it first
consumer = LitePullConsumer("forking", namesrv=namesrv, consume_from=ConsumeFrom.FIRST)
consumer.subscribe(topic)
producer.start()
consumer.start()
producer.send(Message(topic, b"before"))
stop, counts = threading.Event(), []

def send():  # calls are under way at each fork
    count = 0
    while not stop.is_set():
        producer.send(Message(topic, b"parent"))
        count += 1
    counts.append(count)

threads = [threading.Thread(target=send) for _ in range(4)]
for thread in threads:
    thread.start()

def child(number):
    began = time.monotonic()
    for call in (
        lambda: producer.send(Message(topic, b"never")),
        lambda: producer.send_soon(Message(topic, b"never")),
        lambda: consumer.poll(),
        lambda: producer.start(),
        lambda: producer.flush(),
    ):
        try:
            call()
        except InvalidUse as error:
            assert "fork" in str(error), error
        else:
            raise AssertionError("the parent's")
    producer.close()
    consumer.close()
    with described:
        result = described.send(Message(topic, b"child"))
        assert result.status is SendStatus.SEND_OK
    with Producer("forking", namesrv=namesrv) as mine:
        mine.send(Message(topic, b"child"))
    os.write(writing, f"{result.message_id} {time.monotonic() - began < 20}\\n".encode())

reading, writing = os.pipe()
children = []
for number in range(6):
    pid = os.fork()
    if pid == 0:
        try:
            child(number)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        if number % 2:
            sys.exit(0)  # through all that the end of an interpreter does
        os._exit(0)
    children.append(pid)
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
os.close(writing)
ids = [line.split() for line in os.fdopen(reading)]
stop.set()
for thread in threads:
    thread.join()
assert codes == [0] * 6, codes
assert len({each for each, _ in ids}) == 6 and all(quick == "True" for _, quick in ids), ids
assert producer.send(Message(topic, b"after")).status is SendStatus.SEND_OK
bodies = []
while len(bodies) < sum(counts) + 14:
    batch = consumer.poll(20_000)
    assert batch, (len(bodies), sum(counts))
    bodies += [message.body for message in batch]
consumer.close()
producer.close()
print({body: bodies.count(body) for body in (b"before", b"child", b"after", b"never")})
print("errors", bodies.count(b"parent") - sum(counts))
"""


def test_forks_while_calls_are_under_way(namesrv: str) -> None:
    """Six children; nothing hangs, nothing of the parent's is touched, ids are never the same."""
    printed = run_program(FORK, namesrv, "forked")
    assert "{b'before': 1, b'child': 12, b'after': 1, b'never': 0}" in printed, printed
    assert "errors 0" in printed
    assert "Traceback" not in printed


POOL = """
import multiprocessing, sys
from aerobee.client.sync import *

namesrv, topic = sys.argv[1], sys.argv[2]
producer = Producer(namesrv=namesrv)  # as a module of a web application has it

def begin():
    producer.start()

def work(number):
    return producer.send(Message(topic, b"%d" % number)).message_id

with multiprocessing.get_context("fork").Pool(3, begin) as pool:
    ids = pool.map(work, range(60))
    pool.close()
    pool.join()
print(len(set(ids)))
"""


def test_workers_that_are_forked_start_what_was_described_before(namesrv: str) -> None:
    """One object of the module, a loop for each worker, and other message ids in each."""
    assert run_program(POOL, namesrv, "pooled").splitlines()[-1] == "60"


WITHIN = """
import os, signal, sys, threading
from aerobee.client.sync import *

consumer = LitePullConsumer("waiting", namesrv=sys.argv[1])
consumer.subscribe("waiting")
consumer.start()
children = []

def fork(number, frame):
    children.append(os.fork())

signal.signal(signal.SIGALRM, fork)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    print(consumer.poll(1_000), flush=True)
except InvalidUse:
    assert children == [0]
    consumer.close()
    os._exit(7)
consumer.close()
print(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
"""


def test_a_fork_by_a_signal_s_handler_within_a_wait(namesrv: str) -> None:
    """The child's copy of the wait ends with an error, the parent's as ever."""
    lines = run_program(WITHIN, namesrv).splitlines()  # and warnings of a topic that is not there
    assert lines[-1] == "7" and "[]" in lines


SOON = """
import os, sys
from aerobee.client.sync import *

namesrv, topic = sys.argv[1], sys.argv[2]
producer, described = (Producer("soon", namesrv=namesrv) for _ in range(2))
producer.start()
held = [producer.send_soon(Message(topic, b"parent")) for _ in range(500)]
reading, writing = os.pipe()
children = []
for number in range(3):
    if not (pid := os.fork()):
        try:
            undone = [handle for handle in held if not handle._sent or not handle._sent.done]
            for handle in undone[:10]:
                assert "fork" in str(handle.error) and handle.done
                for call in (handle.result, lambda: producer.send_soon(Message(topic, b"never"))):
                    try:
                        call()
                    except InvalidUse as error:
                        assert "fork" in str(error), error
                    else:
                        raise AssertionError("the parent's")
            producer.close()
            for mine in (described, Producer("soon", namesrv=namesrv)):
                mine.start()
                handles = [mine.send_soon(Message(topic, b"child")) for _ in range(100)]
                mine.close()
                ids = "".join(f"{each.result().message_id}\\n" for each in handles)
                os.write(writing, ids.encode())
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    children.append(pid)
    held += [producer.send_soon(Message(topic, b"parent")) for _ in range(500)]
os.close(writing)
ids = os.fdopen(reading).read().split()
assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 3
ids += [handle.result().message_id for handle in held]
producer.close()
print(len(ids), len(set(ids)))
"""


def test_what_is_sent_soon_on_both_sides_of_a_fork(namesrv: str) -> None:
    """The parent's is answered there, and lost to the child, whose own has ids of its own."""
    assert run_program(SOON, namesrv, "forked-soon").splitlines()[-1] == "2600 2600"
