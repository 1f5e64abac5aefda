"""Light queues (LMQ) that one broker fills, stopped or killed, are read and filled by the other."""

import json
import time
from pathlib import Path

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.raw_messages import create_topic, offset_of, read_queue, send, wait_for_route
from support.interop.raw_remoting import RawClient
from support.interop.rocketmq_server import RocketMQ

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(300)]

KINDS: dict[str, type[Cluster]] = {"rocketmq": RocketMQ, "aerobee": Aerobee}
SETTINGS = {"enableLmq": "true", "enableMultiDispatch": "true"}
A, B, GROUP = "%LMQ%a", "%LMQ%b", "%LMQ%group"
MESSAGES = 60


def fill(client: RawClient, begin: int) -> None:
    """Send numbered messages: all are for one light queue, every third for a second."""
    for number in range(begin, begin + MESSAGES):
        names = f"{A},{B}" if number % 3 == 0 else A
        properties = {"UNIQ_KEY": f"{number:032X}", "INNER_MULTI_DISPATCH": names}
        answer = send(client, "parent", number % 2, b"%d" % number, properties)
        assert answer.code == 0, answer


def check(client: RawClient, count: int) -> None:
    """Every message is in its queues, in order, and says at which offset."""
    deadline = time.monotonic() + 60
    while offset_of(client, 30, A, 0) < count:  # RocketMQ dispatches a moment later
        assert time.monotonic() < deadline, f"{offset_of(client, 30, A, 0)} of {count}"
        time.sleep(0.05)
    for queue, numbers in ((A, range(count)), (B, range(0, count, 3))):
        found = read_queue(client, queue, 0)
        assert [int(each.body) for each in found] == list(numbers)
        for offset, message in enumerate(found):
            names = message.properties["INNER_MULTI_DISPATCH"].split(",")
            offsets = message.properties["INNER_MULTI_QUEUE_OFFSET"].split(",")
            assert int(offsets[names.index(queue)]) == offset
            assert (message.topic, message.queue_offset) == ("parent", int(message.body) // 2)


def committed(client: RawClient) -> int:
    """Where the light group is."""
    fields = {"consumerGroup": GROUP, "topic": A, "queueId": "0"}
    answer = client.call(14, fields)
    assert answer.code == 0, answer
    return int(answer.ext["offset"])


def commit(client: RawClient, offset: int) -> None:
    """Let the light group be somewhere."""
    body = {"groupName": GROUP, "consumeEnable": True, "consumeFromMinEnable": True}
    client.call(200, body=json.dumps(body).encode())
    fields = {"consumerGroup": GROUP, "topic": A, "queueId": "0", "commitOffset": str(offset)}
    answer = client.call(15, fields)
    assert answer.code == 0, answer


@pytest.mark.parametrize(
    "generations",
    [
        "rocketmq stopped, aerobee stopped, rocketmq stopped",
        "aerobee killed, rocketmq killed, aerobee stopped",
    ],
)
def test_light_queues_change_hands(generations: str, tmp_path: Path) -> None:
    """Entries and offsets of all that came before, and what is new behind them."""
    store = tmp_path / "store"
    for number, generation in enumerate(generations.split(", ")):
        kind, end = generation.split()
        cluster = KINDS[kind](tmp_path / f"{number}-{kind}", store=store, settings=SETTINGS)
        with cluster:
            if number == 0:
                create_topic(cluster.broker, "parent", 2)
                wait_for_route(cluster.namesrv, "parent")
            with RawClient(cluster.broker) as client:
                if number:
                    check(client, MESSAGES * number)
                    if "killed" not in generations:
                        assert committed(client) == MESSAGES * number - 7
                fill(client, MESSAGES * number)
                check(client, MESSAGES * (number + 1))
                commit(client, MESSAGES * (number + 1) - 7)
            if end == "killed":
                cluster.kill_broker()
            else:
                cluster.stop_broker()


@pytest.mark.parametrize("kind", [*KINDS])
def test_what_waits_gets_its_entries_when_it_is_due(kind: str, tmp_path: Path) -> None:
    """A delay level, and a timer: not before, and behind what came meanwhile."""
    with KINDS[kind](tmp_path, settings=SETTINGS | {"messageDelayLevel": "3s"}) as cluster:
        create_topic(cluster.broker, "parent", 1)
        wait_for_route(cluster.namesrv, "parent")
        with RawClient(cluster.broker) as client:
            # RocketMQ's timers may be a second early, its levels a fifth of one late
            for number, more in enumerate(({"DELAY": "1"}, {"TIMER_DELAY_MS": "7000"}, {})):
                properties = {"UNIQ_KEY": f"{number:032X}", "INNER_MULTI_DISPATCH": A, **more}
                assert send(client, "parent", 0, b"%d" % number, properties).code == 0
            deadline = time.monotonic() + 60
            while offset_of(client, 30, A, 0) < 3:
                assert time.monotonic() < deadline, offset_of(client, 30, A, 0)
                time.sleep(0.05)
            found = read_queue(client, A, 0)
            assert [each.body for each in found] == [b"2", b"0", b"1"]
            assert [each.properties["INNER_MULTI_QUEUE_OFFSET"] for each in found] == [
                "0",
                "1",
                "2",
            ]
            assert {each.topic for each in found} == {"parent"}
