"""Half messages and their ENDs: what is stored, who may end what, and that it ends once."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from support.features.transactions import (
    COMMIT,
    HALF,
    OP,
    ROLLBACK,
    begin,
    bodies,
    end,
    end_command,
    half_command,
    records,
    transactions,
)
from support.raw_peer import RawPeer
from support.servers.brokers import running_broker, send_command
from support.waiting import until

from aerobee.broker.app import Broker
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command, next_opaque
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.properties import parse_properties

FAR = {"transactionTimeOut": "60000"}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker that asks nobody meanwhile."""
    async with running_broker(tmp_path, **FAR) as running:
        yield running


@pytest.fixture
async def peer(broker: Broker) -> AsyncIterator[RawPeer]:
    """A connection to it."""
    async with await RawPeer.connect(broker.port) as connected:
        yield connected


async def test_a_half_message_is_seen_when_it_is_committed(broker: Broker, peer: RawPeer) -> None:
    """The records are RocketMQ's: the half, the committed one, and the op message of the turn."""
    await begin(peer, b"first")
    half = await begin(peer, b"hello", TAGS="TagA", h="7", g="1718000000123")
    assert (half["queueId"], half["queueOffset"]) == ("0", "1")
    assert half["transactionId"] == b"hello".hex().upper()
    assert bodies(broker) == []
    (_, stored) = records(broker, HALF)
    own = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}
    client = {"UNIQ_KEY": half["transactionId"], "TRAN_MSG": "true", "PGROUP": "pg", "TAGS": "TagA"}
    real = {"REAL_TOPIC": "T", "REAL_QID": "0", "__transactionId__": half["transactionId"]}
    assert parse_properties(stored.properties) == client | own | real
    assert (stored.sys_flag, stored.prepared_transaction_offset, stored.flag) == (0, 0, 7)
    assert await end(peer, half, COMMIT) == (0, "")
    (record,) = records(broker, "T")
    assert (record.body, record.flag, record.sys_flag) == (b"hello", 7, 8)
    assert record.prepared_transaction_offset == stored.position
    assert (record.born_timestamp, record.born_host) == (1718000000123, stored.born_host)
    kept = {"__transactionId__": half["transactionId"]}
    assert parse_properties(record.properties) == client | own | kept
    (op,) = records(broker, OP)
    assert (op.body, op.properties, op.sys_flag) == (b"1,", b"WAIT\x01true\x02TAGS\x01d\x02", 0)
    assert op.born_host == op.store_host
    queue = broker.store.find_queue(OP, 0)
    assert queue is not None and queue.entry(0)[2] == ord("d")
    assert op.position > record.position, "what is committed lies before what says so"


async def test_what_is_rolled_back_is_never_seen(broker: Broker, peer: RawPeer) -> None:
    """Its op message says that it is over."""
    half = await begin(peer)
    assert await end(peer, half, ROLLBACK) == (0, "")
    assert await end(peer, half, ROLLBACK) == (0, "")
    code, remark = await end(peer, half, COMMIT)
    assert (code, "rollback" in remark) == (1, True)
    assert bodies(broker) == []
    assert [record.body for record in records(broker, OP)] == [b"0,"]
    assert not len(transactions(broker).halves)


async def test_an_end_that_comes_twice_commits_once(broker: Broker, peer: RawPeer) -> None:
    """In one read, one-way, or asked again when the answer was lost."""
    half = await begin(peer)
    once = encode_frame(end_command(half, COMMIT, oneway=True))
    await peer.send(once * 3)
    assert await end(peer, half, COMMIT) == (0, "")
    assert (await end(peer, half, ROLLBACK))[0] == 1
    assert bodies(broker) == [b"hello"]
    assert [record.body for record in records(broker, OP)] == [b"0,"]


async def test_the_ends_of_one_turn_share_an_op_message(broker: Broker, peer: RawPeer) -> None:
    """One record names them all, behind all that they committed."""
    halves = [await begin(peer, b"m%d" % number) for number in range(20)]
    ends = [end_command(half, COMMIT, oneway=True) for half in halves]
    await peer.send(b"".join(map(encode_frame, ends)))
    await until(lambda: len(bodies(broker)) == 20, what="all are committed")
    await until(lambda: not transactions(broker)._ops.pending, what="their op message")
    ops = records(broker, OP)
    assert len(ops) < 5
    named = b"".join(op.body for op in ops).split(b",")
    assert sorted(int(each) for each in named if each) == list(range(20))
    assert ops[-1].position > records(broker, "T")[-1].position


async def test_an_op_message_may_be_longer_than_what_is_sent(tmp_path: Path) -> None:
    """However small maxMessageSize is, the log says of each that it is over."""
    small = {"maxMessageSize": "16", **FAR}
    async with (
        running_broker(tmp_path, **small) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        halves = [await begin(peer, b"%d" % number) for number in range(40)]
        ends = [end_command(half, ROLLBACK, oneway=True) for half in halves]
        await peer.send(b"".join(map(encode_frame, ends)))
        await until(lambda: not transactions(broker).halves, what="all are over")
    async with running_broker(tmp_path, **small) as broker:
        assert not transactions(broker).halves
        named = b"".join(record.body for record in records(broker, OP))
        assert sorted(map(int, named.split(b",")[:-1])) == list(range(40))


async def test_who_does_not_know_yet_is_not_answered(broker: Broker, peer: RawPeer) -> None:
    """The transaction stays open."""
    half = await begin(peer)
    await peer.send(encode_frame(end_command(half, 0)))
    await peer.send(encode_frame(end_command(half, 4)))
    assert await end(peer, half, COMMIT) == (0, "")


@pytest.mark.parametrize(
    ("fields", "remark"),
    [
        ({"producerGroup": "other"}, "The producer group wrong"),
        ({"tranStateTableOffset": "5"}, "The transaction state table offset wrong"),
        ({"commitLogOffset": "1"}, "Find prepared transaction message failed"),
        ({"commitLogOffset": str(1 << 62)}, "Find prepared transaction message failed"),
        ({"commitLogOffset": "-1"}, "Find prepared transaction message failed"),
        ({"topic": "other"}, "The topic of the transaction wrong"),
    ],
)
async def test_an_end_must_fit_its_half(
    broker: Broker, peer: RawPeer, fields: dict[str, str], remark: str
) -> None:
    """In RocketMQ's words; the transaction stays open for who may end it."""
    half = await begin(peer)
    assert await end(peer, half, COMMIT, **fields) == (1, remark)
    assert bodies(broker) == []
    assert await end(peer, half, COMMIT, topic=HALF) == (0, "")


async def test_a_plain_message_is_no_half(broker: Broker, peer: RawPeer) -> None:
    """RocketMQ writes into any topic for who names a message with such properties."""
    text = "UNIQ_KEY\x01K\x02PGROUP\x01pg\x02REAL_TOPIC\x01Secret\x02REAL_QID\x010\x02"
    sent = await peer.request(send_command(b"plain", properties=text))
    code, remark = await end(peer, sent.ext, COMMIT, topic="Secret")
    assert (code, remark) == (1, "Find prepared transaction message failed")
    assert broker.store.find_queue("Secret", 0) is None


async def test_a_retry_of_an_open_half_gets_its_place(broker: Broker, peer: RawPeer) -> None:
    """A client whose reply was lost sends once more: RocketMQ has two then, and asks about one."""
    first = await begin(peer, b"hello")
    again = await begin(peer, b"hello")
    assert first == again
    assert len(records(broker, HALF)) == 1
    other = await begin(peer, b"hello", group="pg2")
    assert other["queueOffset"] == "1"
    assert await end(peer, again, COMMIT) == (0, "")
    assert await end(peer, first, COMMIT) == (0, "")
    assert bodies(broker) == [b"hello"]


@pytest.mark.parametrize(
    ("more", "code", "remark"),
    [
        ({"DELAY": "3"}, 13, "Transactional messages do not support delayed delivery"),
        ({"TIMER_DELAY_SEC": "3"}, 13, "Transactional messages do not support delayed delivery"),
        ({"sys_flag": 8}, 16, "sending transaction message is forbidden"),
        ({"sys_flag": 12}, 16, "sending transaction message is forbidden"),
        ({"TRAN_MSG": "no"}, 16, "sending transaction message is forbidden"),
    ],
)
async def test_what_cannot_be_a_half_is_refused(
    broker: Broker, peer: RawPeer, more: dict[str, str], code: int, remark: str
) -> None:
    """RocketMQ stores such messages where nobody ever finds them."""
    reply = await peer.request(half_command(**more))  # type: ignore[arg-type]
    assert (reply.code, remark in (reply.remark or "")) == (code, True)
    assert records(broker, HALF) == []


async def test_transactions_can_be_refused_while_it_runs(broker: Broker, peer: RawPeer) -> None:
    """rejectTransactionMessage; what is open can be ended."""
    half = await begin(peer)
    change = Command(
        code=RequestCode.UPDATE_BROKER_CONFIG, body=b"rejectTransactionMessage=true",
        opaque=next_opaque(),
    )  # fmt: skip
    assert (await peer.request(change)).code == 0
    refused = await peer.request(half_command(b"late"))
    assert refused.code == ResponseCode.NO_PERMISSION
    assert await end(peer, half, COMMIT) == (0, "")


async def test_so_many_may_be_open(tmp_path: Path) -> None:
    """What is too much is refused so that a client tries elsewhere; an END makes room."""
    async with (
        running_broker(tmp_path, openTransactionsMax="2", **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        first = await begin(peer, b"1")
        await begin(peer, b"2")
        refused = await peer.request(half_command(b"3"))
        assert refused.code == ResponseCode.SYSTEM_BUSY
        assert await end(peer, first, COMMIT) == (0, "")
        await begin(peer, b"3")


async def test_a_late_word_of_who_wanted_no_check_waits_for_it(tmp_path: Path) -> None:
    """604: beyond its immunity the check decides, whose answer counts."""
    async with (
        running_broker(tmp_path, transactionTimeOut="1000") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        half = await begin(peer, CHECK_IMMUNITY_TIME_IN_SECONDS="2", g="1718000000000")
        code, remark = await end(peer, half, COMMIT)
        assert (code, remark) == (ResponseCode.ILLEGAL_OPERATION, "")
        assert await end(peer, half, COMMIT, checked=True) == (0, "")
        assert bodies(broker) == [b"hello"]


async def test_sync_flush_answers_when_the_disk_has_it(tmp_path: Path) -> None:
    """Half message and END alike."""
    async with (
        running_broker(tmp_path, flushDiskType="SYNC_FLUSH", **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        half = await begin(peer)
        assert await end(peer, half, COMMIT) == (0, "")
        log = broker.store.commit_log
        assert log.flushed_position == log.position


@pytest.mark.parametrize("oneway", [False, True])
async def test_a_half_goes_into_light_queues_when_it_is_committed(
    tmp_path: Path, *, oneway: bool
) -> None:
    """With offsets that the broker says: those that a sender has put there name others' places."""
    light = {"enableLmq": "true", "enableMultiDispatch": "true"}
    names = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b", "INNER_MULTI_QUEUE_OFFSET": "7,7"}
    async with (
        running_broker(tmp_path, **FAR, **light) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await end(peer, await begin(peer, b"plain"), COMMIT)
        refused = await peer.request(half_command(b"x", INNER_MULTI_DISPATCH="T"))
        assert refused.code == ResponseCode.MESSAGE_ILLEGAL
        rolled_back = await begin(peer, b"other", **names)
        half = await begin(peer, b"hello", **names)
        assert await end(peer, rolled_back, ROLLBACK) == (0, "")
        assert broker.store.find_queue("%LMQ%a", 0) is None
        await peer.send(encode_frame(end_command(half, COMMIT, oneway=oneway)))
        await until(lambda: len(bodies(broker)) == 2, what="it is committed")
        record = records(broker, "T")[1]
        properties = parse_properties(record.properties)
        assert properties["INNER_MULTI_QUEUE_OFFSET"] == "0,0"
        for name in ("%LMQ%a", "%LMQ%b"):
            queue = broker.store.find_queue(name, 0)
            assert queue is not None and queue.max_offset == 1
            assert queue.entry(0)[0] == record.position


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_late_end_leaves_a_later_transaction_of_its_name_alone(
    tmp_path: Path, *, restarted: bool
) -> None:
    """A program that sends the same message again after a rollback; the first END comes twice."""
    async with (
        running_broker(tmp_path, **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        first = await begin(peer)
        assert await end(peer, first, ROLLBACK) == (0, "")
        second = await begin(peer)
        assert second["queueOffset"] != first["queueOffset"]
        if not restarted:
            assert (await end(peer, first, ROLLBACK))[0] == 1
            assert await end(peer, second, COMMIT) == (0, "")
            assert bodies(broker) == [b"hello"]
    async with (
        running_broker(tmp_path, **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        if restarted:
            assert (await end(peer, first, ROLLBACK))[0] == 1
            assert await end(peer, second, COMMIT) == (0, "")
        assert bodies(broker) == [b"hello"]


def has_committed(broker: Broker, count: int) -> bool:
    """Whether so many messages are in their topic."""
    return len(bodies(broker)) == count


@pytest.mark.parametrize("compiled", ["true", "false"])
@pytest.mark.parametrize("kept_bytes_max", [1 << 20, 1000, 0])
async def test_what_is_committed_at_once_is_what_the_log_would_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_bytes_max: int, compiled: str
) -> None:
    """A quick END is served from memory, a later one, or one of many, from the log."""
    monkeypatch.setattr(
        "aerobee.broker.features.transactions.fast_halves.KEPT_BYTES_MAX", kept_bytes_max
    )
    async with (
        running_broker(tmp_path, compiledFastPath=compiled, **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await ended_at_once(broker, peer)


async def ended_at_once(broker: Broker, peer: RawPeer) -> None:
    """Commit some transactions, and compare what is stored of each."""
    begun = []
    for number in range(4):
        properties = {"TAGS": "TagA", "color": "blue"} if number % 2 else {}
        begun.append(
            await begin(
                peer, b"same", key=f"KEY{number}", sys_flag=5, h="7", g="1718000000123",
                **properties,
            )
        )  # fmt: skip
    for number, half in enumerate(begun):
        await peer.send(encode_frame(end_command(half, COMMIT, oneway=True)))
        await until(partial(has_committed, broker, number + 1), what="it is committed")
    halves, committed = records(broker, HALF), records(broker, "T")
    queue = broker.store.find_queue("T", 0)
    assert queue is not None
    for offset, (half_record, record) in enumerate(zip(halves, committed, strict=True)):
        assert record.prepared_transaction_offset == half_record.position
        assert (record.sys_flag, record.flag, record.reconsume_times) == (9, 7, 0)
        assert record.born_timestamp == half_record.born_timestamp == 1718000000123
        assert (record.born_host, record.store_host) == (
            half_record.born_host, half_record.store_host
        )  # fmt: skip
        text = half_record.properties
        assert record.properties == text.replace(b"REAL_TOPIC\x01T\x02REAL_QID\x010\x02", b"")
        own = broker.store.find_queue(HALF, 0)
        assert own is not None and queue.entry(offset)[2] == own.entry(offset)[2]


@pytest.mark.parametrize(
    "text",
    [
        "UNIQ_KEY\x01K\x02TRAN_MSG\x01true\x02PGROUP\x01pg\x02UNIQ_KEY\x01K1\x02",
        "XUNIQ_KEY\x01K\x02UNIQ_KEY\x01K1\x02TRAN_MSG\x01true\x02PGROUP\x01pg\x02",
        "A\x01UNIQ_KEY\x01K\x02UNIQ_KEY\x01K1\x02TRAN_MSG\x01true\x02PGROUP\x01pg\x02",
        "TRAN_MSG\x01true\x02PGROUP\x01pg\x02UNIQ_KEY\x01K1",
    ],
)
async def test_unusual_texts_of_properties_are_read_alike_each_time(
    broker: Broker, peer: RawPeer, text: str
) -> None:
    """What is remembered of texts of properties says the same as a look at each of them."""
    for again in range(3):
        await begin(peer, b"plain", key=f"P{again}")
        reply = await peer.request(
            send_command(b"hello", properties=text.replace("K1", f"K1{again}"), a="pg", f="4")
        )
        assert reply.code == 0
        record = records(broker, HALF)[-1]
        properties = parse_properties(record.properties)
        assert properties["__transactionId__"] == properties["UNIQ_KEY"]
        assert properties["UNIQ_KEY"] == reply.ext["transactionId"]
