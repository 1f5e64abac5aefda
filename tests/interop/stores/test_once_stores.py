"""A store changes brokers: of each unique key the first message counts, whoever has taken it."""

import json
import shutil
from pathlib import Path

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.raw_messages import offset_of, read_queue, send, wait_for_route
from support.interop.raw_remoting import Answer, RawClient
from support.interop.rocketmq_server import RocketMQ

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(300)]

TOPIC = "once-store"
ATTRIBUTES = "+aerobee.dedup.seconds=3600"
DELAYED = {"DELAY": "18"}
ID = "msgId", "queueId", "queueOffset"


def make_topic(client: RawClient) -> None:
    """Create the topic that stores a retry once."""
    fields = {
        "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": "2", "writeQueueNums": "2",
        "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        "attributes": ATTRIBUTES,
    }  # fmt: skip
    answer = client.call(17, fields)
    assert answer.code == 0, answer


def produce(client: RawClient, numbers: range) -> dict[int, Answer]:
    """Send messages, every fifth to be delayed for two hours; return the answers."""
    answers = {}
    for number in numbers:
        more = DELAYED if number % 5 == 4 else {}
        properties = {"UNIQ_KEY": f"{number:032X}", **more}
        answers[number] = send(client, TOPIC, number % 2, b"%d" % number, properties)
        assert answers[number].code == 0, answers[number]
    return answers


def again(client: RawClient, numbers: range) -> dict[int, Answer]:
    """Send them once more; return the answers to those that were there."""
    return {
        n: answer for n, answer in produce(client, numbers).items() if "DUPLICATE" in answer.ext
    }


def counted(client: RawClient) -> list[int]:
    """How many messages lie in the topic's queues, and wait to get there."""
    waiting = offset_of(client, 30, "SCHEDULE_TOPIC_XXXX", int(DELAYED["DELAY"]) - 1)
    return [waiting, *(len(read_queue(client, TOPIC, queue)) for queue in range(2))]


def leave(cluster: Cluster, end: str) -> None:
    """End a broker's time with the store."""
    if end == "killed":
        cluster.kill_broker()
    else:
        cluster.stop_broker()


def same(found: Answer, first: Answer) -> bool:
    """Whether an answer is the first one's."""
    return all(found.ext[name] == first.ext[name] for name in ID)


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_what_rocketmq_took_is_known(tmp_path: Path, end: str) -> None:
    """The snapshot is older than its log: what came again to RocketMQ keeps its first answer."""
    store = tmp_path / "store"
    with Aerobee(tmp_path / "1", store=store) as cluster, RawClient(cluster.broker) as client:
        make_topic(client)
        wait_for_route(cluster.namesrv, TOPIC)
        ours = produce(client, range(20))
        leave(cluster, end)
    with RocketMQ(tmp_path / "2", store=store) as other, RawClient(other.broker) as client:
        twice = produce(client, range(10))  # which RocketMQ stores
        theirs = produce(client, range(20, 40))
        assert not any(same(answer, ours[number]) for number, answer in twice.items())
        leave(other, end)
    topics = json.loads((store / "config" / "topics.json").read_text())["topicConfigTable"]
    assert topics[TOPIC]["attributes"] == {"aerobee.dedup.seconds": "3600"}
    for generation in "34":  # the second finds what the first has saved
        cluster = Aerobee(tmp_path / generation, store=store)
        with cluster, RawClient(cluster.broker) as client:
            before = counted(client)
            found = again(client, range(40))
            assert found.keys() == set(range(40))
            assert all(same(found[number], first) for number, first in (ours | theirs).items())
            assert counted(client) == before
            assert not again(client, range(100, 101)) or generation == "4"
            leave(cluster, end)


def test_a_log_that_another_broker_shortened(tmp_path: Path) -> None:
    """The snapshot has keys of a log that is no more, in whose place RocketMQ has stored others."""
    store, older = tmp_path / "store", tmp_path / "older"
    with Aerobee(tmp_path / "1", store=store) as cluster, RawClient(cluster.broker) as client:
        make_topic(client)
        wait_for_route(cluster.namesrv, TOPIC)
        kept = produce(client, range(20))
        leave(cluster, "stopped")
    shutil.copytree(store, older)
    with Aerobee(tmp_path / "2", store=store) as cluster, RawClient(cluster.broker) as client:
        produce(client, range(20, 40))
        leave(cluster, "stopped")
    shutil.copy(store / "aerobee.dedup", older / "aerobee.dedup")
    with RocketMQ(tmp_path / "3", store=older) as other, RawClient(other.broker) as client:
        theirs = produce(client, range(40, 70))
        leave(other, "stopped")
    with Aerobee(tmp_path / "4", store=older) as cluster, RawClient(cluster.broker) as client:
        assert not again(client, range(20, 40)), "their messages are lost"
        found = again(client, range(70))
        assert found.keys() == set(range(70))
        assert all(same(found[number], first) for number, first in (kept | theirs).items())
