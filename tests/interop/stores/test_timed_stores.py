"""Messages with a time of their own: what one broker took the other delivers, each of them once."""

import base64
import json
import subprocess
import time
from collections import Counter
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.peers import RECALL
from support.interop.raw_messages import create_topic, read_queue, send, wait_for_route
from support.interop.raw_remoting import RawClient
from support.interop.rocketmq_server import RocketMQ

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(600)]

KINDS: dict[str, type[Cluster]] = {"rocketmq": RocketMQ, "aerobee": Aerobee}
TOPIC = "timed-store"
COUNT = 20


def timed(client: RawClient, name: str, first_ms: int, step_ms: int = 37) -> dict[bytes, int]:
    """Send messages by TIMER_DELIVER_MS; return when each is due."""
    dues = {b"%s %d" % (name.encode(), n): first_ms + n * step_ms for n in range(COUNT)}
    for body, due_ms in dues.items():
        pairs = {
            "UNIQ_KEY": body.hex().upper(), "TAGS": "TagA", "TIMER_DELIVER_MS": str(due_ms),
        }  # fmt: skip
        answer = send(client, TOPIC, 0, body, pairs)
        assert answer.code == 0, answer
        handle = base64.urlsafe_b64decode(answer.ext["recallHandle"]).decode().split(" ")
        assert handle[:2] == ["v1", TOPIC] and handle[4] == body.hex().upper()
        assert int(handle[3]) == (due_ms - 1) // 1000 * 1000 + 1
    return dues


def wait_for(client: RawClient, bodies: set[bytes], seconds: float) -> None:
    """Return once all of them are in their topic, each message there once."""
    deadline = time.monotonic() + seconds
    while True:
        found = Counter(message.body for message in read_queue(client, TOPIC, 0))
        assert set(found.values()) <= {1}, found
        if found.keys() >= bodies:
            return
        assert time.monotonic() < deadline, bodies - found.keys()
        time.sleep(0.2)


def wait_noted(store: Path, due_ms: int) -> None:
    """Return once `timercheck` has a second as done: RocketMQ repeats what it has not.

    So it does behind a kill of its own.
    """
    deadline = time.monotonic() + 60
    while int.from_bytes((store / "config/timercheck").read_bytes()[:8], "big") < due_ms:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def wait_for_some(client: RawClient, bodies: AbstractSet[bytes], count: int) -> None:
    """Return once so many of them are in their topic."""
    deadline = time.monotonic() + 60
    while len({message.body for message in read_queue(client, TOPIC, 0)} & bodies) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    "generations",
    [
        ("rocketmq stopped", "aerobee stopped", "rocketmq stopped"),
        ("aerobee stopped", "rocketmq stopped", "aerobee killed", "aerobee stopped"),
        ("aerobee killed", "rocketmq killed", "aerobee stopped"),
    ],
    ids=lambda generations: " - ".join(generations),
)
def test_the_next_broker_delivers_what_is_left(
    generations: tuple[str, ...], tmp_path: Path
) -> None:
    """What was delivered before is not delivered again, nor the half of a second that was."""
    store = tmp_path / "store"
    due: set[bytes] = set()
    waiting: set[bytes] = set()
    last = len(generations) - 1
    for number, generation in enumerate(generations):
        kind, end = generation.split()
        directory = tmp_path / f"{number}-{kind}"
        settings = {"timerWheelEnable": "true"}
        with (
            KINDS[kind](directory, store=store, settings=settings) as cluster,
            RawClient(cluster.broker) as client,
        ):
            if number == 0:
                create_topic(cluster.broker, TOPIC, 1)
                wait_for_route(cluster.namesrv, TOPIC)
            later_ms = (
                int(time.time() * 1000) + 30_000
            )  # the first ones, of a cold broker, may take
            waiting |= timed(client, f"later {number}", later_ms, 1000).keys()
            timed_now = timed(client, f"soon {number}", int(time.time() * 1000) + 2000, 300)
            due |= timed_now.keys()
            if number == last:
                wait_for(client, due | waiting, 120)
            elif kind == "rocketmq":
                wait_for(client, due, 60)
            elif end == "killed" and generations[number + 1].startswith("rocketmq"):
                wait_for(client, due, 60)
                wait_noted(store, max(timed_now.values()))
            else:  # in the midst of a second
                wait_for_some(client, timed_now.keys(), COUNT // 2)
            if end == "killed":
                cluster.kill_broker()
            else:
                cluster.stop_broker()


def test_what_rocketmq_put_aside_once_more_comes_once(tmp_path: Path) -> None:
    """It is killed before it has said so: its slots still have what it has stored anew."""
    store = tmp_path / "store"
    settings = {
        "timerWheelEnable": "true", "timerRollWindowSlot": "6", "timerFlushIntervalMs": "600000",
    }  # fmt: skip
    with (
        RocketMQ(tmp_path / "before", store=store, settings=settings) as cluster,
        RawClient(cluster.broker) as client,
    ):
        create_topic(cluster.broker, TOPIC, 1)
        wait_for_route(cluster.namesrv, TOPIC)
        waiting = timed(client, "long", int(time.time() * 1000) + 40_000).keys()
        deadline = time.monotonic() + 60
        while timers_queued(client) < 2 * COUNT:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert not read_queue(client, TOPIC, 0)
        cluster.kill_broker()
    with (
        Aerobee(tmp_path / "after", store=store, settings={"timerWheelEnable": "true"}) as after,
        RawClient(after.broker) as client,
    ):
        wait_for(client, set(waiting), 90)
        time.sleep(3)  # nothing comes of a second that is over
        assert Counter(message.body for message in read_queue(client, TOPIC, 0)) == Counter(waiting)


def timers_queued(client: RawClient) -> int:
    """Return how many messages the timers' queue has had: each once more for each time it rolls."""
    answer = client.call(30, {"topic": "rmq_sys_wheel_timer", "queueId": "0"})
    assert answer.code == 0, answer
    return int(answer.ext["offset"])


@pytest.mark.parametrize(
    ("before", "after"),
    [("rocketmq stopped", "aerobee"), ("aerobee stopped", "rocketmq"),
     ("rocketmq killed", "aerobee"), ("aerobee killed", "rocketmq")],
    ids=["rocketmq", "aerobee", "rocketmq killed", "aerobee killed"],
)  # fmt: skip
def test_what_was_taken_back_stays_away_after_an_exchange(
    before: str, after: str, tmp_path: Path
) -> None:
    """Recalled by the broker that took it, or by the next, which knows the handle of the first."""
    for delay_s in (45, 150):  # of which a busy machine's brokers may take more to change places
        if exchanged(before, after, tmp_path / str(delay_s), delay_s):
            return
    raise AssertionError("the machine is too slow for this test")


def exchanged(before: str, after: str, folder: Path, delay_s: int) -> bool:
    """Take messages back before they are due, at each of two brokers; False if it was too late."""
    kind, end = before.split()
    settings = {"recallMessageEnable": "true", "timerWheelEnable": "true"}
    store = folder / "store"
    cluster = KINDS[kind](folder / "before", store=store, settings=settings)
    with cluster, RawClient(cluster.broker) as client:
        create_topic(cluster.broker, TOPIC, 1)
        wait_for_route(cluster.namesrv, TOPIC)
        first_ms = int(time.time() * 1000) + delay_s * 1000
        handles = recallable(client, first_ms)
        for body in (b"first 1", b"first 6"):
            recall(client, handles[body])
        noted_s = 3 if kind == "rocketmq" else 0  # it notes what waits each second
        time_noted_s = time.monotonic() + noted_s
        while time.monotonic() < time_noted_s:
            assert not read_queue(client, TOPIC, 0)
            time.sleep(0.2)
        if end == "killed":
            cluster.kill_broker()
        else:
            cluster.stop_broker()
    other = KINDS[after](folder / "after", store=store, settings=settings)
    with other, RawClient(other.broker) as client:
        if time.time() * 1000 > first_ms - 2000:
            return False
        for body in (b"first 3", b"first 8"):
            recall(client, handles[body])
        taken = {b"first 1", b"first 3", b"first 6", b"first 8"}
        wait_for(client, handles.keys() - taken, delay_s + 120)
        last_ms = first_ms + 700 * len(handles) + 3000
        while time.time() * 1000 < last_ms:
            time.sleep(0.2)
        found = Counter(message.body for message in read_queue(client, TOPIC, 0))
        assert found == Counter(handles.keys() - taken)
        return True


def recallable(client: RawClient, first_ms: int) -> dict[bytes, str]:
    """Send messages that are due from then on; return the handle of each."""
    handles = {}
    for number in range(10):
        body, due_ms = b"first %d" % number, first_ms + 700 * number
        pairs = {"UNIQ_KEY": body.hex().upper(), "TIMER_DELIVER_MS": str(due_ms)}
        handles[body] = send(client, TOPIC, 0, body, pairs).ext["recallHandle"]
    return handles


def recall(client: RawClient, handle: str) -> None:
    """Take a message back."""
    fields = {"topic": TOPIC, "recallHandle": handle, "producerGroup": "g"}
    answer = client.call(370, fields)
    assert answer.code == 0, answer


@pytest.mark.parametrize("kind", ["aerobee", "rocketmq"])
def test_a_java_producer_takes_a_message_back(kind: str, tmp_path: Path) -> None:
    """What it sets comes at its time, from our broker to the millisecond; what it recalls never."""
    settings = {"recallMessageEnable": "true", "timerWheelEnable": "true"}
    with (
        KINDS[kind](tmp_path, settings=settings) as cluster,
        RawClient(cluster.broker) as client,
    ):
        create_topic(cluster.broker, TOPIC, 1)
        wait_for_route(cluster.namesrv, TOPIC)
        command = [*RECALL.command(), cluster.namesrv, TOPIC]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        told = {each["body"]: each for each in map(json.loads, done.stdout.splitlines())}
        assert told["recalled"]["recalled"] == told["recalled"]["key"]
        wait_for(client, {b"delay", b"deliver"}, 60)
        messages = read_queue(client, TOPIC, 0)
        assert {message.body for message in messages} == {b"delay", b"deliver"}
        for message in messages:
            out_ms = int(message.properties["TIMER_OUT_MS"])
            taken_ms = int(message.properties["TIMER_DEQUEUE_MS"])
            assert taken_ms > out_ms and message.properties["REAL_TOPIC"] == TOPIC
            if kind == "aerobee" and "TIMER_DELIVER_MS" in message.properties:
                assert taken_ms >= int(message.properties["TIMER_DELIVER_MS"])
