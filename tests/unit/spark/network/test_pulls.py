"""Pulls of a task against brokers that have lost messages, are away, or behave oddly."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest
from support.stand_ins.fake_cluster import FakeBroker, FakeCluster
from support.waiting import until

from aerobee.remoting.bodies import BrokerData, QueueData, TopicRouteData, encode_body
from aerobee.remoting.codes import Perm, RequestCode, ResponseCode
from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.headers.pull import PullMessageReply
from aerobee.remoting.headers.typed import encode_header
from aerobee.remoting.message.record import encode_record
from aerobee.remoting.net.routes import Reply
from aerobee.spark.errors import ClusterUnreachable, DataLost
from aerobee.spark.lost.marks import Mark
from aerobee.spark.lost.network_planned import PlannedEnds
from aerobee.spark.network import pulls as network_pulls
from aerobee.spark.network.brokers import Network
from aerobee.spark.network.cluster import LoopThread
from aerobee.spark.network.reads import NetworkPiece, network_records
from aerobee.spark.offsets import BrokerQueue, QueueRange
from aerobee.spark.options.address import NetworkAddress
from aerobee.spark.records.selection import EVERYTHING
from aerobee.spark.topics import TopicChoice

KEY = BrokerQueue("broker-a", "orders", 0)
PULL = RequestCode.PULL_MESSAGE


@contextmanager
def broker() -> Iterator[FakeBroker]:
    """A broker, and nameserver, of 100 messages."""
    cluster = FakeCluster()
    with LoopThread("test") as loop:
        loop.run(cluster.__aenter__())
        cluster.create("orders", 1)
        fake = cluster.brokers[0]
        for number in range(100):
            fake.store("orders", 0, b"%d" % number)
        yield fake
        loop.run(cluster.__aexit__())


@pytest.fixture
def fake() -> Iterator[FakeBroker]:
    """The broker."""
    with broker() as started:
        yield started


def read(
    fake: FakeBroker, start: int = 0, end: int = 100, *, fail: bool = True, patience_ms: int = 5000
) -> list[int]:
    """The offsets that a task reads."""
    address = NetworkAddress((fake.cluster.namesrv,), patience_ms=patience_ms)
    piece = NetworkPiece(address, (QueueRange(KEY, start, end),))
    found: list[int] = []
    for _, records in network_records(piece, EVERYTHING, fail_on_data_loss=fail):
        found += records.field("queue_offset", "i8").tolist()
    return found


def answer(code: int, after: int, low: int = 0, high: int = 100, body: bytes = b"") -> Reply:
    """A reply to a pull."""
    header = PullMessageReply(
        suggest_which_broker_id=0, next_begin_offset=after, min_offset=low, max_offset=high
    )
    return Reply(ext=encode_header(header), body=body, code=code)


def test_a_part_of_a_queue_and_nothing_stored(fake: FakeBroker) -> None:
    """Exactly the range; no heartbeat, no commit, and the group that tools have."""
    assert read(fake, 7, 93) == list(range(7, 93))
    assert not fake.heartbeats and not fake.committed
    assert {each.ext["consumerGroup"] for each in fake.requests(PULL)} == {"TOOLS_CONSUMER"}


@pytest.mark.parametrize("most", [1, 3, 32])
def test_short_replies(fake: FakeBroker, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """However few messages a broker sends at a time, and spans of however many there are."""
    monkeypatch.setattr(network_pulls, "PULL_MESSAGES_MAX", most)
    monkeypatch.setattr(network_pulls, "SPAN_BYTES", 500)
    assert read(fake) == list(range(100))


@pytest.mark.parametrize("given", [0, 40, 256])
def test_many_messages_are_asked_for_at_once(fake: FakeBroker, given: int) -> None:
    """Of brokers that know full replies, and of all others as ever; few are asked for by number."""
    fake.full_reply_messages = given
    assert read(fake, 2, 98) == list(range(2, 98))
    asked = [
        (int(each.ext["queueOffset"]), each.ext["maxMsgNums"], each.ext.get("AEROBEE_FULL_REPLY"))
        for each in fake.requests(PULL)
    ]
    more = [(74, "24", None)] if given == 40 else []
    assert sorted(asked) == [(2, "32", None), (34, "64", "true"), *more]


def test_what_a_full_reply_has_too_much_is_left_out(
    fake: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts of a range are sized as messages are, not as what came for them was."""
    monkeypatch.setattr(network_pulls, "FULL_REPLY_FROM", 2)
    monkeypatch.setattr(network_pulls, "SPAN_BYTES", 1200)
    fake.full_reply_messages = 90
    assert read(fake, 3, 95) == list(range(3, 95))
    size = len(encode_record(fake.log["orders", 0][50]))
    pulls = fake.requests(PULL)
    assert {each.ext["maxMsgNums"] for each in pulls[1:-1]} == {str(1200 // size)}
    assert {each.ext.get("AEROBEE_FULL_REPLY") for each in pulls} == {"true"}


def test_retention_overtakes(fake: FakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    """What is gone fails the read, or is left out with a warning."""
    del fake.log["orders", 0][:40]
    fake.first_offset["orders", 0] = 40
    with pytest.raises(DataLost, match=r"35 messages .*orders broker-a:0 \[5, 40\)"):
        read(fake, 5)
    with caplog.at_level(logging.WARNING):
        assert read(fake, 5, fail=False) == list(range(40, 100))
        assert read(fake, 5, 20, fail=False) == []
    told = [record.getMessage() for record in caplog.records]
    assert ["[5, 40)" in told[0], "[5, 20)" in told[1], len(told)] == [True, True, 2]


def test_messages_passed_over_within_a_reply(fake: FakeBroker) -> None:
    """A broker that deletes files skips their messages without a word."""
    records = fake.log["orders", 0]
    body = b"".join(encode_record(each) for each in [*records[:20], *records[25:32]])
    fake.script[PULL].append(lambda *_: answer(ResponseCode.SUCCESS, 32, body=body))
    with pytest.raises(DataLost, match=r"5 messages .*\[20, 25\)"):
        read(fake)


def test_files_being_removed(fake: FakeBroker) -> None:
    """The broker says where to go on."""
    fake.script[PULL].append(lambda *_: answer(ResponseCode.PULL_RETRY_IMMEDIATELY, 10))
    assert read(fake, fail=False) == list(range(10, 100))


def test_queue_became_shorter(fake: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that has lost its last messages gets some time to find them, and no more."""
    monkeypatch.setattr(network_pulls, "SHORTER_PATIENCE_S", 0.1)
    with pytest.raises(DataLost, match=r"\[100, 110\)"):
        read(fake, 90, 110)
    with pytest.raises(DataLost, match=r"\[105, 110\)"):
        read(fake, 105, 110)
    assert read(fake, 90, 110, fail=False) == list(range(90, 100))


def test_what_is_lost_is_waited_for_and_told_once(
    fake: FakeBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not again for each part of it that would have been read at a time."""
    monkeypatch.setattr(network_pulls, "SHORTER_PATIENCE_S", 0.1)
    with caplog.at_level(logging.WARNING):
        assert read(fake, 90, 10_000, fail=False) == list(range(90, 100))
    assert "[100, 10000)" in caplog.text
    assert len(caplog.records) == 1
    assert len(fake.requests(PULL)) < 20


def test_end_that_no_queue_has_is_passed_at_once(
    fake: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many messages a broker has said that there are."""
    monkeypatch.setattr(network_pulls, "SHORTER_PATIENCE_S", 0.1)
    assert read(fake, 90, (1 << 63) - 1, fail=False) == list(range(90, 100))


def test_broker_that_was_away_gets_its_time_to_find_messages(
    fake: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it was away before."""
    monkeypatch.setattr(network_pulls, "SHORTER_PATIENCE_S", 0.3)
    fake.refuse(PULL, ResponseCode.SYSTEM_BUSY, times=4)  # 0.05 + 0.1 + 0.2 + 0.4 s
    fake.script[PULL].append(lambda *_: answer(ResponseCode.PULL_NOT_FOUND, 50, 0, 50))
    assert read(fake, 60) == list(range(60, 100))


def test_messages_come_back(fake: FakeBroker) -> None:
    """As after a restart: answers of a moment are not taken for a loss."""
    moved = ResponseCode.PULL_OFFSET_MOVED
    fake.script[PULL].append(lambda *_: answer(moved, 50, 0, 50))
    fake.script[PULL].append(lambda *_: answer(ResponseCode.PULL_NOT_FOUND, 50, 0, 50))
    fake.refuse(PULL, ResponseCode.SYSTEM_BUSY, times=2)
    assert read(fake, 60) == list(range(60, 100))


def test_topic_is_deleted(fake: FakeBroker) -> None:
    """Its messages are lost."""
    fake.refuse(PULL, ResponseCode.TOPIC_NOT_EXIST)
    with pytest.raises(DataLost, match=r"\[0, 100\)"):
        read(fake)


RUBBISH = [
    (RequestCode.GET_MAX_OFFSET, {"offset": "x"}, "queue orders broker-a:0.*OffsetReply"),
    (PULL, {"nextBeginOffset": "x"}, "queue orders broker-a:0.*PullMessageReply"),
]


@pytest.mark.parametrize(("code", "ext", "text"), RUBBISH)
def test_driver_names_whose_answer_is_rubbish(
    fake: FakeBroker, code: int, ext: dict[str, str], text: str
) -> None:
    """Which queue was asked about, at which cluster, and what to look at."""
    for _ in range(3):
        fake.script[code].append(lambda *_: Reply(ext=ext, code=ResponseCode.SUCCESS))
    refusal = pytest.raises(ClusterUnreachable, match=f"asked about {text}.*see that the address")
    with Network(NetworkAddress((fake.cluster.namesrv,))) as network, refusal:
        network.latest([KEY]), network.record_sizes(KEY, 0)


def test_no_offset_is_below_zero(fake: FakeBroker) -> None:
    """Whatever a broker answers."""
    for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET):
        fake.script[code].append(lambda *_: Reply(ext={"offset": "-7"}, code=ResponseCode.SUCCESS))
    with Network(NetworkAddress((fake.cluster.namesrv,))) as network:
        choice = TopicChoice(names=frozenset({"orders"}))
        assert network.bounds(choice) == {KEY: QueueRange(KEY, 0, 0)}


def test_other_broker_at_the_address_is_not_believed() -> None:
    """What it does not know is not deleted: the queue's broker may have moved."""
    cluster = FakeCluster(2)
    with LoopThread("test") as loop:
        loop.run(cluster.__aenter__())
        cluster.create("orders", 1)
        fake, other = cluster.brokers
        for number in range(100):
            fake.store("orders", 0, b"%d" % number)
        moved = TopicRouteData(
            queue_datas=[QueueData(broker_name=KEY.broker, read_queue_nums=1, perm=Perm.READ)],
            broker_datas=[
                BrokerData(cluster="c", broker_name=KEY.broker, broker_addrs={0: other.address})
            ],
        )
        route = RequestCode.GET_ROUTEINFO_BY_TOPIC
        fake.script[route].append(lambda *_: Reply(body=encode_body(moved)))
        other.refuse(PULL, ResponseCode.TOPIC_NOT_EXIST)
        assert read(fake) == list(range(100))
        assert len(other.requests(PULL)) == 1
        loop.run(cluster.__aexit__())


@pytest.mark.parametrize("later_ms", [0, 5000])
def test_last_planned_message_vouches_for_the_others(
    fake: FakeBroker, later_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker's clock that was set back is no loss; the broker is asked, and only then."""
    records = fake.log["orders", 0]
    stamp = records[10].store_timestamp + later_ms
    records[10] = msgspec.structs.replace(records[10], store_timestamp=stamp)
    last = Mark(records[99].position, records[99].store_timestamp)
    planned = PlannedEnds({KEY: (99, last)})
    piece = NetworkPiece(
        NetworkAddress((fake.cluster.namesrv,)), (QueueRange(KEY, 0, 50),), planned
    )
    with caplog.at_level(logging.WARNING):
        found = [
            offset
            for _, pulled in network_records(piece, EVERYTHING)
            for offset in pulled.field("queue_offset", "i8").tolist()
        ]
    assert found == list(range(50)) and not caplog.records
    asked = [each for each in fake.requests(PULL) if each.ext["queueOffset"] == "99"]
    assert len(asked) == (1 if later_ms else 0)


def test_refusal(fake: FakeBroker) -> None:
    """What no later try would change fails at once, in the broker's own words."""
    fake.refuse(PULL, ResponseCode.NO_PERMISSION)
    text = r"orders broker-a:0 from offset 0 on cannot be read .*NO_PERMISSION.*as the test wants"
    with pytest.raises(ClusterUnreachable, match=text):
        read(fake)


def test_broker_that_stays_away(fake: FakeBroker) -> None:
    """The text says what was tried, for how long, and which option says so."""
    fake.refuse(PULL, ResponseCode.SYSTEM_BUSY, times=100)
    with pytest.raises(ClusterUnreachable, match=r"networkTimeout: 200 ms\).*SYSTEM_BUSY"):
        read(fake, patience_ms=200)


def test_damaged_reply(fake: FakeBroker) -> None:
    """It is refused rather than guessed at, and found again by queue and offset."""
    fake.script[PULL].append(lambda *_: answer(ResponseCode.SUCCESS, 32, body=b"\1" * 500))
    with pytest.raises(CorruptRecord, match=r"orders broker-a:0 offset 0 to .* no run of records"):
        read(fake)


def test_reader_that_stops_early(fake: FakeBroker) -> None:
    """Nothing goes on in the background."""
    address = NetworkAddress((fake.cluster.namesrv,))
    records = network_records(NetworkPiece(address, (QueueRange(KEY, 0, 100),)), EVERYTHING)
    next(records)
    records.close()
    asyncio.run(until(lambda: not fake.connections, what="the end of the connections"))
