"""Messages are found by key with RocketMQ's clients; indexes change hands with its broker."""

import json
import struct
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.peers import FIND
from support.interop.raw_messages import create_topic, decode_records, send, wait_for_route
from support.interop.raw_remoting import Answer, RawClient
from support.interop.rocketmq_server import RocketMQ

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(300)]

TOPIC = "index-topic"
SIZES = {"maxHashSlotNum": "1000", "maxIndexNum": "2000", "mappedFileSizeCommitLog": "1048576"}
KINDS: dict[str, type[Cluster]] = {"rocketmq": RocketMQ, "aerobee": Aerobee}
BATCH = 400  # messages of a generation, four keys each: an index file is full after 499 of them


def unique(number: int) -> str:
    """A unique key as clients make them: 32 hex digits."""
    return f"0A00000100001234567800000000{number:04X}"


def store(cluster: Cluster, first: int, count: int) -> None:
    """Send messages with keys of all kinds."""
    with RawClient(cluster.broker) as client:
        for number in range(first, first + count):
            keys = f"key-{number} mod-{number % 100} 键"
            texts = {"UNIQ_KEY": unique(number), "KEYS": keys, "TAGS": f"T{number % 3}"}
            answer = send(client, TOPIC, number % 4, b"%d" % number, texts)
            assert answer.code == 0, answer


def find(client: RawClient, key: str, more: Mapping[str, str] | None = None) -> Answer:
    """Ask for messages by key (12)."""
    fields = {"topic": TOPIC, "key": key, "maxNum": "64", "beginTimestamp": "0",
              "endTimestamp": str((1 << 63) - 1), "indexType": "K"}  # fmt: skip
    return client.call(12, fields | dict(more or {}))


def bodies(answer: Answer) -> list[int]:
    """The numbers of the messages in an answer."""
    return sorted(int(record.body) for record in decode_records(answer.body))


def found_within(client: RawClient, key: str, count: int, seconds: float = 60) -> list[int]:
    """Ask until so many are found; RocketMQ indexes a moment later."""
    deadline = time.monotonic() + seconds
    while len(numbers := bodies(find(client, key))) < count and time.monotonic() < deadline:
        time.sleep(0.05)
    return numbers


def check(cluster: Cluster, total: int) -> None:
    """Every message is found by each of its keys, those of earlier brokers too."""
    with RawClient(cluster.broker) as client:
        assert found_within(client, f"key-{total - 1}", 1) == [total - 1]
        for number in (*range(0, total, 27), 399, total - 1):
            assert bodies(find(client, f"key-{number}")) == [number]
            asked = {"_UNIQUE_KEY_QUERY": "true"}
            assert bodies(find(client, unique(number), asked)) == [number]
        for number in range(0, 100, 27):
            wanted = list(range(number, total, 100))
            assert found_within(client, f"mod-{number}", len(wanted)) == wanted
        tagged = {"indexType": "T", "maxNum": "32"}
        assert all(number % 3 == 1 for number in bodies(find(client, "T1", tagged)))


@pytest.mark.parametrize(
    "generations",
    [
        "rocketmq stopped, aerobee stopped, rocketmq stopped",
        "aerobee stopped, rocketmq stopped, aerobee killed",
        "rocketmq killed, aerobee killed, aerobee stopped",
    ],
)
def test_an_index_changes_hands(generations: str, tmp_path: Path) -> None:
    """Each broker finds what the ones before it have indexed, however they ended."""
    total, killed_by = 0, ""
    for number, generation in enumerate(generations.split(", ")):
        kind, end = generation.split()
        cluster = KINDS[kind](tmp_path / f"{number}", store=tmp_path / "store", settings=SIZES)
        with cluster:
            if number == 0:
                create_topic(cluster.broker, TOPIC)
                wait_for_route(cluster.namesrv, TOPIC)
            elif kind == "aerobee" or not killed_by:
                check(cluster, total)  # RocketMQ removes the newest file after a kill
            store(cluster, total, BATCH)
            total += BATCH
            if kind == "aerobee" or not killed_by:
                check(cluster, total)
            if end == "killed":
                cluster.kill_broker()
            else:
                cluster.stop_broker()
            killed_by = kind if end == "killed" else ""


def test_our_files_are_those_of_rocketmq(tmp_path: Path) -> None:
    """The same messages give the same heads, slots and entries, but for times."""
    files: dict[str, list[bytes]] = {}
    for kind, made in KINDS.items():
        folder = tmp_path / kind / "store"
        with made(tmp_path / kind, store=folder, settings=SIZES) as cluster:
            create_topic(cluster.broker, TOPIC)
            wait_for_route(cluster.namesrv, TOPIC)
            store(cluster, 0, BATCH)
            check(cluster, BATCH)
            cluster.stop_broker()
        files[kind] = [path.read_bytes() for path in sorted(folder.glob("index/*"))]
    theirs, ours = files["rocketmq"], files["aerobee"]
    assert len(theirs) == len(ours) == 2
    for their_file, our_file in zip(theirs, ours, strict=True):
        assert their_file[32:4040] == our_file[32:4040], "counts, slots"
        entries = [
            list(struct.iter_unpack(">iqii", file[4040:])) for file in (their_file, our_file)
        ]
        hashes = [[(entry[0], entry[3]) for entry in each] for each in entries]
        assert hashes[0] == hashes[1]


def test_java_finds_by_every_way(tmp_path: Path) -> None:
    """A producer, the admin client, and the commands of mqadmin."""
    with Aerobee(tmp_path, settings=SIZES) as cluster:
        create_topic(cluster.broker, TOPIC)
        wait_for_route(cluster.namesrv, TOPIC)
        store(cluster, 0, 120)
        said = ask_java(cluster, "mod-3", unique(7), tmp_path)
    assert said["queryMessage"] == said["adminQuery"] == "[103, 3]"
    assert "no message" in said["queryMessageOfNothing"]
    assert said["byUniqueKey"] == said["viewMessage"] == "[7]", said
    assert {unique(3), unique(103)} == {
        word for word in said["queryMsgByKey"].split() if word.startswith(unique(0)[:28])
    }
    assert unique(7) in said["queryMsgByUniqueKey"]
    assert "key-7 mod-7" in said["queryMsgById"], said["queryMsgById"]


def ask_java(cluster: Cluster, key: str, uniq: str, folder: Path) -> dict[str, str]:
    """Run the program that asks; return what each way has said."""
    child = FIND.start([cluster.namesrv, TOPIC, key, uniq, "T1"], folder / "log")
    try:
        output, _ = child.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        child.kill()
        output, _ = child.communicate()
    lines = [json.loads(line) for line in output.splitlines() if line.startswith('{"ask"')]
    assert child.returncode == 0 and lines, output + (folder / "log").read_text()
    return {line["ask"]: line["text"] for line in lines}
