"""A store changes brokers in mid-transaction: each transaction ends once, whoever ends it."""

import json
import time
from collections import Counter
from pathlib import Path

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.raw_messages import (
    create_topic,
    decode_record,
    offset_of,
    read_queue,
    send,
    wait_for_route,
)
from support.interop.raw_remoting import Answer, RawClient
from support.interop.rocketmq_server import RocketMQ

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(300)]

KINDS: dict[str, type[Cluster]] = {"rocketmq": RocketMQ, "aerobee": Aerobee}
TOPIC = "transaction-store"
HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
GROUP = "raw-producer"
COMMIT, ROLLBACK = "8", "12"
COUNT = 10
CHECK = 39
SETTINGS = {
    "transactionTimeOut": "4000",  # RocketMQ asks about what it has committed, if it is too soon
    "transactionCheckInterval": "2000",
    "transactionOpBatchInterval": "1000",
}


def decision(body: bytes) -> str:
    """What the producer decides about a message, whenever it is asked."""
    return ROLLBACK if body.startswith(b"rollback") else COMMIT


def begin(client: RawClient, body: bytes) -> Answer:
    """Send a half message."""
    pairs = {
        "UNIQ_KEY": body.hex().upper(), "TAGS": "TagA", "TRAN_MSG": "true", "PGROUP": GROUP,
    }  # fmt: skip
    half = send(client, TOPIC, 0, body, pairs, sys_flag=4)
    assert half.code == 0, half
    return half


def end(client: RawClient, offset: str, message_id: str, outcome: str, *, checked: bool) -> None:
    """Commit or roll back."""
    fields = {
        "topic": TOPIC, "producerGroup": GROUP, "tranStateTableOffset": offset,
        "commitLogOffset": str(int(message_id[-16:], 16)), "commitOrRollback": outcome,
        "fromTransactionCheck": str(checked).lower(), "bname": "broker-a",
    }  # fmt: skip
    answer = client.call(37, fields)
    assert answer.code == 0, answer


def transact(client: RawClient, name: str, outcome: str, *, ends: bool) -> set[bytes]:
    """Begin transactions, and end them or not; return the bodies."""
    word = "commit" if outcome == COMMIT else "rollback"
    bodies = {f"{word} {name} {number}".encode() for number in range(COUNT)}
    for body in sorted(bodies):
        half = begin(client, body)
        if ends:
            end(client, half.ext["queueOffset"], half.ext["msgId"], outcome, checked=False)
    return bodies


def answer_checks(cluster: Cluster, expected: set[bytes], open_ones: set[bytes]) -> set[bytes]:
    """Be a producer that answers until what is open has been asked about and ended.

    Return what was asked about, also in the seconds after that.
    """
    asked = set[bytes]()
    with RawClient(cluster.broker, 3.0) as client, RawClient(cluster.broker) as other:
        beat = {"clientID": "raw", "producerDataSet": [{"groupName": GROUP}], "consumerDataSet": []}
        assert client.call(34, {}, json.dumps(beat).encode()).code == 0
        deadline = time.monotonic() + 90
        while True:
            try:
                header, body = client.receive()
            except TimeoutError:
                if open_ones <= asked and visible(other) == expected:
                    return asked
                assert time.monotonic() < deadline, (expected ^ visible(other), open_ones - asked)
                continue
            if header["code"] != CHECK or header.get("flag", 0) & 1:
                continue
            message, fields = decode_record(body), header["extFields"]
            assert (message.topic, message.queue_id) == (TOPIC, 0)
            asked.add(message.body)
            outcome, place = decision(message.body), fields["offsetMsgId"]
            end(other, fields["tranStateTableOffset"], place, outcome, checked=True)


def visible(client: RawClient) -> set[bytes]:
    """Return what consumers see, each of it once."""
    found = Counter(message.body for message in read_queue(client, TOPIC, 0))
    assert set(found.values()) <= {1}, found
    return set(found)


@pytest.mark.parametrize(
    "generations",
    [
        ("rocketmq killed", "aerobee killed", "rocketmq stopped"),
        ("aerobee killed", "rocketmq stopped", "aerobee stopped"),
    ],
    ids=lambda generations: " - ".join(generations),
)
def test_the_next_broker_ends_what_is_open(generations: tuple[str, ...], tmp_path: Path) -> None:
    """What one has committed or rolled back the other does not ask about, however it ended."""
    store = tmp_path / "store"
    due: set[bytes] = set()
    open_ones: set[bytes] = set()
    settled: set[bytes] = set()  # what the log says is over: nobody is to be asked about it
    for number, generation in enumerate(generations):
        kind, how = generation.split()
        directory = tmp_path / f"{number}-{kind}"
        with (
            KINDS[kind](directory, store=store, settings=SETTINGS) as cluster,
            RawClient(cluster.broker) as client,
        ):
            if number == 0:
                create_topic(cluster.broker, TOPIC, 1)
                wait_for_route(cluster.namesrv, TOPIC)
            else:
                asked = answer_checks(cluster, due, open_ones)
                assert not settled & asked, "they had ended before"
            if number == len(generations) - 1:
                assert offset_of(client, 30, HALF, 0) >= 4 * COUNT
                assert visible(client) == due
                break
            committed = transact(client, f"at once {number}", COMMIT, ends=True)
            rolled_back = transact(client, f"at once {number}", ROLLBACK, ends=True)
            open_ones = transact(client, f"later {number}", COMMIT, ends=False)
            due |= committed | open_ones
            open_ones |= transact(client, f"later {number}", ROLLBACK, ends=False)
            # RocketMQ forgets the roll-backs of its last second, which nothing else says
            settled = committed | (rolled_back if kind == "aerobee" else set())
            if how == "killed":
                cluster.kill_broker()
            else:
                cluster.stop_broker()
