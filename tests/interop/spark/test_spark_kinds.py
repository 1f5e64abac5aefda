"""Messages of every kind that the Java client makes, as the Spark source reads them from the log.

Each broker writes them; RocketMQ's own consumer and its MessageDecoder say what they are.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.peers import JAVA_5, KINDS, RECORDS, Peer
from support.interop.raw_messages import create_group, offset_of, wait_for_route
from support.interop.raw_remoting import RawClient
from support.interop.rocketmq_server import RocketMQ
from support.interop.sessions import Session

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

Records = list[dict[str, Any]]

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    pytest.mark.needs("java"),
    pytest.mark.timeout(300),
]

BOTH = (
    *("plain", "properties", "bodies", "compressed", "batch", "accumulated", "ordered", "delayed"),
    *("request", "retry", "dead", "space%named", "inner-batch"),
)
OF_ROCKETMQ_ALONE = ("transaction", "timer", "traced", "many-queues")
OVER_IPV6 = ("plain", "compressed", "batch", "delayed")
LONG_GROUP = "g" * 120  # as long as a broker takes
GROUPS = {"retry": LONG_GROUP, "dead": "giving-up"}
DELAYS = " ".join(["1s"] * 17 + ["2h"])
SETTINGS = {
    "messageDelayLevel": DELAYS,
    "mappedFileSizeCommitLog": str(16 << 20),
}
ROCKETMQ_SETTINGS = SETTINGS | {
    "traceTopicEnable": "true",
    "enableLmq": "true",
    "enableMultiDispatch": "true",
    "enabledAppendPropCRC": "true",
    "timerWheelEnable": "true",
}
COMPRESSED, FROM_CONSUMER = 1, ("MIN_OFFSET", "MAX_OFFSET")
PACKED_BITS = 0x701
TRANSACTIONS = {"RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"}
EVERYTHING = "includeSystemTopics", "includeRetryTopics"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session on one core."""
    from aerobee.spark import session

    spark = session("local[1]", conf={"spark.driver.memory": "1g"})
    yield spark
    spark.stop()


@pytest.mark.parametrize("kind", [RocketMQ, Aerobee], ids=lambda kind: kind.name)
def test_every_kind_is_read_as_java_reads_it(
    spark: SparkSession, kind: type[Cluster], tmp_path: Path
) -> None:
    """All columns of all records, as stored and unpacked; by topics what a consumer receives."""
    store = tmp_path / "store"
    kinds = BOTH if kind is Aerobee else (*BOTH, *OF_ROCKETMQ_ALONE)
    settings = SETTINGS if kind is Aerobee else ROCKETMQ_SETTINGS
    with kind(tmp_path / "four", store=store, settings=settings) as cluster:
        counts = write_all(cluster, kinds)
        cluster.stop()
    six = kind(tmp_path / "six", store=store, settings=settings | {"bindAddress": "::"})
    six.broker = six.broker.replace("127.0.0.1", "::1")
    with six:
        counts.update(write_all(six, OVER_IPV6))
        words = [f"{topic}={count}" for topic, count in counts.items()]
        received = list(lines(RECORDS, "receive", six.namesrv, *words))
        six.stop()
    stored = list(lines(RECORDS, "decode", store / "commitlog", "true"))
    check_kinds(stored, kinds)
    check(single(read(spark, store, *EVERYTHING)), single(stored))
    unpacked = single(list(lines(RECORDS, "decode", store / "commitlog", "false")))
    check(single(read(spark, store, *EVERYTHING, "decompress")), unpacked, as_stored=False)
    for topic in counts:
        rows = read(spark, store, "decompress", subscribe=topic)
        wanted = received_of(topic, received)
        assert len(wanted) == counts[topic]
        if topic == "inner-batch":
            check_messages(received_of(topic, rows), wanted)
        else:
            check(rows, wanted, as_stored=False)


def check_kinds(stored: Records, kinds: Iterable[str]) -> None:
    """Hold the log to what was to be made: a comparison of what is not there says nothing."""
    waiting = {"transaction": TRANSACTIONS, "timer": {"rmq_sys_wheel_timer"}}
    waiting |= {"traced": {"RMQ_SYS_TRACE_TOPIC"}, "delayed": {"SCHEDULE_TOPIC_XXXX"}}
    topics = {row["topic"] for row in stored}
    assert {*kinds}.union(*(waiting.get(kind, set()) for kind in kinds)) <= topics
    hosts = {(row["born_host"][0] == "[", row["store_host"][0] == "[") for row in stored}
    assert hosts == {(False, False), (True, True)}
    packed = {row["sys_flag"] & PACKED_BITS for row in stored if row["sys_flag"] & COMPRESSED}
    assert packed == {COMPRESSED | kind << 8 for kind in (1, 2, 3)}
    assert b"" in {row["body"] for row in stored}


def write_all(cluster: Cluster, kinds: Iterable[str]) -> Counter[str]:
    """Let messages of these kinds be sent, and those that fail handled; return what topics got."""
    with RawClient(cluster.broker) as broker:
        for topic in kinds:
            create(broker, topic, batches=topic == "inner-batch")
            wait_for_route(cluster.namesrv, topic)
        send_bodiless(broker, "plain")
        counts = Counter({"plain": 1})
        with Session(JAVA_5, cluster.namesrv) as session:
            members = {}
            for topic, group in GROUPS.items():
                if topic in kinds:
                    retries = 1 if topic == "dead" else 16
                    create_group(broker, group, retries)
                    members[topic] = session.open("push", group, topic, retries=retries)
            for line in lines(KINDS, cluster.namesrv, *kinds):
                counts[line["topic"]] += line["count"]
            for topic, tries in {"retry": 3, "dead": 2}.items():
                if topic in members:
                    members[topic].wait_for(counts[topic] * tries)
                    counts[f"%RETRY%{GROUPS[topic]}"] += counts[topic] * (tries - 1)
            if "dead" in members:
                dead = f"%DLQ%{GROUPS['dead']}"
                wait_until(lambda: offset_of(broker, 30, dead, 0) == counts["dead"])
                counts[dead] += counts["dead"]
    return counts


def create(broker: RawClient, topic: str, *, batches: bool) -> None:
    """Create a topic of two queues; one of `batches` keeps what is sent together as one record."""
    fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "2", "perm": "6"}
    fields |= {"writeQueueNums": "2", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0"}
    fields |= {"order": "false"} | ({"attributes": "+queue.type=BatchCQ"} if batches else {})
    answer = broker.call(17, fields)
    assert answer.code == 0, answer


def send_bodiless(broker: RawClient, topic: str) -> None:
    """Send a message without a body: the client makes none, and brokers take them in batches."""
    properties = b"TAGS\x01no body\x02"
    one = struct.pack(">iiiiih", 22 + len(properties), 0, 0, 0, 0, len(properties)) + properties
    fields = {"a": "raw", "b": topic, "c": "TBW102", "d": "4", "e": "1", "f": "0", "h": "0"}
    fields |= {"g": str(time.time_ns() // 10**6), "i": "", "j": "0", "k": "false", "m": "true"}
    answer = broker.call(320, fields, one)
    assert answer.code == 0, answer


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Return once the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def lines(peer: Peer, *words: object) -> Iterator[dict[str, Any]]:
    """Run a program to its end and return the JSON lines that it printed."""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory, "log")
        child = peer.start([str(word) for word in words], log)
        output, _ = child.communicate(timeout=120)
        assert child.returncode == 0, output[-2000:] + log.read_text()[-3000:]
    for line in output.splitlines():
        if line.startswith("{"):
            yield decoded(json.loads(line))


def decoded(line: dict[str, Any]) -> dict[str, Any]:
    """Bring a record as the program prints it into the form of a row."""
    if "body" in line:
        line["body"] = base64.b64decode(line["body"])
        for name in ("born_host", "store_host"):
            address, port = ipaddress.ip_address(line[name][0]), line[name][1]
            line[name] = f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"
        for name in FROM_CONSUMER:
            line["properties"].pop(name, None)
    return line


def received_of(topic: str, received: Records) -> Records:
    """What a consumer got of a topic, in the log's order."""
    found = [row for row in received if row["topic"] == topic]
    return sorted(found, key=lambda row: (row["commit_log_offset"], row["queue_offset"]))


def single(rows: Records) -> Records:
    """Those that are records of their own."""
    return [row for row in rows if row["topic"] != "inner-batch"]


def check_messages(rows: Records, wanted: Records) -> None:
    """Messages of batches: Java leaves some fields of their records out, and sets others."""
    names = "commit_log_offset queue_id queue_offset flag body properties store_timestamp"
    names += " born_timestamp born_host store_host"
    assert [{name: row[name] for name in names.split()} for row in rows] == [
        {name: row[name] for name in names.split()} for row in wanted
    ]


def read(spark: SparkSession, store: Path, *flags: str, **options: str) -> Records:
    """Read all columns of the source in the log's order."""
    names = "topic queue_id queue_offset store_timestamp born_timestamp tags keys properties body"
    names += " born_host store_host sys_flag reconsume_times commit_log_offset flag body_crc"
    names += " body_bytes record_bytes prepared_transaction_offset"
    reader = spark.read.format("rocketmq").options(**options, **dict.fromkeys(flags, "true"))
    rows = reader.option("columns", ",".join(names.split())).load(str(store)).collect()
    return sorted(map(plain, rows), key=lambda row: row["commit_log_offset"])


def plain(row: Row) -> dict[str, Any]:
    """Return a row with bytes and milliseconds."""
    values = row.asDict()
    values["body"] = bytes(values["body"])
    for name in ("store_timestamp", "born_timestamp"):
        values[name] = round(values[name].timestamp() * 1000)
    return values


def check(rows: Records, expected: Records, *, as_stored: bool = True) -> None:
    """Compare field by field."""
    expected = sorted(expected, key=lambda row: row["commit_log_offset"])
    positions = [row["commit_log_offset"] for row in rows]
    assert positions == [row["commit_log_offset"] for row in expected]
    for row, wanted in zip(rows, expected, strict=True):
        if not as_stored:  # Java takes the flag away with the packing; sizes are the record's
            row["sys_flag"] &= ~COMPRESSED
            wanted["body_bytes"] = row["body_bytes"]
        for name in wanted:
            assert row[name] == wanted[name], (row["topic"], name)
