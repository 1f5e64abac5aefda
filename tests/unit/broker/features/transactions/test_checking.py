"""Producers are asked about what they have not decided: when, who, how often, and then."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from support.features.transactions import (
    COMMIT,
    GIVEN_UP,
    HALF,
    OP,
    ROLLBACK,
    begin,
    bodies,
    end,
    end_command,
    half_command,
    producer_beat,
    records,
    transactions,
)
from support.raw_peer import RawPeer
from support.servers.brokers import running_broker
from support.waiting import until

from aerobee.broker.app import Broker
from aerobee.broker.features.transactions import feature
from aerobee.broker.features.transactions.checking import HalfChecks
from aerobee.broker.features.transactions.halves import Half
from aerobee.broker.features.transactions.texts import copied_text
from aerobee.broker.writing.stamps import Stamp
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command, next_opaque
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.properties import join_properties, parse_properties
from aerobee.remoting.message.record import Record, decode_record

SOON = {"transactionTimeOut": "50", "transactionCheckInterval": "100"}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker that asks soon."""
    async with running_broker(tmp_path, **SOON) as running:
        yield running


@pytest.fixture
async def peer(broker: Broker) -> AsyncIterator[RawPeer]:
    """A connection to it."""
    async with await RawPeer.connect(broker.port) as connected:
        yield connected


async def test_a_producer_is_asked_and_its_answer_counts(broker: Broker, peer: RawPeer) -> None:
    """The question has the message as its consumers would get it; the answer names the copy."""
    assert (await peer.request(producer_beat())).code == 0
    half = await begin(peer, b"hello", TAGS="TagA", h="7")
    asked = await peer.read()
    assert (asked.code, asked.is_oneway) == (RequestCode.CHECK_TRANSACTION_STATE, True)
    assert asked.ext["topic"] == HALF
    assert asked.ext["transactionId"] == asked.ext["msgId"] == half["transactionId"]
    assert (asked.ext["tranStateTableOffset"], asked.ext["bname"]) == ("1", "broker-a")
    shown = decode_record(asked.body)
    assert (shown.topic, shown.queue_id, shown.body, shown.flag) == ("T", 0, b"hello", 7)
    copy = records(broker, HALF)[1]
    assert int(asked.ext["commitLogOffset"]) == copy.position
    assert asked.ext["offsetMsgId"].endswith(f"{copy.position:016X}")
    assert parse_properties(copy.properties)["TRANSACTION_CHECK_TIMES"] == "1"
    assert [op.body for op in records(broker, OP)] == [b"0,"], "the record before is over"
    assert await end(peer, asked.ext, COMMIT, checked=True) == (0, "")
    (record,) = records(broker, "T")
    assert record.prepared_transaction_offset == copy.position
    assert transactions(broker).shown()["transactions"]["checks"] == 1


async def test_a_late_end_of_a_copied_half_is_the_only_one(broker: Broker, peer: RawPeer) -> None:
    """The first record still validates: RocketMQ commits for it, and for the check's answer."""
    assert (await peer.request(producer_beat())).code == 0
    half = await begin(peer)
    asked = await peer.read()
    assert await end(peer, half, COMMIT) == (0, "")
    assert await end(peer, asked.ext, COMMIT, checked=True) == (0, "")
    assert (await end(peer, asked.ext, ROLLBACK, checked=True))[0] == 1
    assert bodies(broker) == [b"hello"]


async def test_members_of_a_group_are_asked_in_turn(broker: Broker) -> None:
    """None of another group, and none that is gone."""
    async with (
        await RawPeer.connect(broker.port) as one,
        await RawPeer.connect(broker.port) as two,
        await RawPeer.connect(broker.port) as other,
    ):
        for number, (peer, group) in enumerate(((one, "pg"), (two, "pg"), (other, "pg2"))):
            assert (await peer.request(producer_beat(group, f"c{number}"))).code == 0
        halves = [await begin(other, b"m%d" % number) for number in range(4)]
        got = [await peer.read() for peer in (one, two, one, two)]
        assert {each.ext["transactionId"] for each in got} == {
            half["transactionId"] for half in halves
        }
    await until(lambda: not broker.context.consumers.members.producers(), what="they are gone")
    async with await RawPeer.connect(broker.port) as late:
        assert (await late.request(producer_beat())).code == 0
        assert (await late.read()).code == RequestCode.CHECK_TRANSACTION_STATE


async def test_what_nobody_decides_is_given_up_and_can_be_resumed(tmp_path: Path) -> None:
    """After transactionCheckMax checks it lies where an administrator finds it; 323 asks again."""
    async with (
        running_broker(tmp_path, transactionCheckMax="2", **SOON) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        half = await begin(peer)
        await until(lambda: bool(records(broker, GIVEN_UP)), what="it is given up")
        (given_up,) = records(broker, GIVEN_UP)
        pairs = parse_properties(given_up.properties)
        assert (pairs["REAL_TOPIC"], pairs["TRANSACTION_CHECK_TIMES"]) == ("T", "2")
        assert broker.context.tables.topics.get(GIVEN_UP) is not None
        assert [op.body for op in records(broker, OP)] == [b"0,", b"1,", b"2,"]
        assert (await end(peer, half, COMMIT))[0] == 1
        assert not transactions(broker).halves.next_due(), "nothing is open, nothing is scheduled"
        assert (await peer.request(producer_beat())).code == 0
        host = half["msgId"][:-16]

        async def resume(position: int) -> Command:
            fields = {"topic": "T", "msgId": f"{host}{position:016X}"}
            code = RequestCode.RESUME_CHECK_HALF_MESSAGE
            return await peer.request(Command(code=code, ext=fields, opaque=next_opaque()))

        refused = await resume(int(half["msgId"][-16:], 16))
        assert refused.code == 1 and "no such message" in (refused.remark or "")
        assert (await resume(given_up.position)).code == 0
        assert (await resume(given_up.position)).code == 0, "it is open already"
        asked = await peer.read()
        assert await end(peer, asked.ext, COMMIT, checked=True) == (0, "")
        assert bodies(broker) == [b"hello"]
        assert len(records(broker, HALF)) == 5
        again = await resume(given_up.position)
        assert again.code == 1 and "resumed before" in (again.remark or "")
    async with (
        running_broker(tmp_path, transactionCheckMax="2", **SOON) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        again = await resume(given_up.position)
        assert again.code == 1 and "resumed before" in (again.remark or "")
        await begin(peer, b"other")
        await until(lambda: len(records(broker, GIVEN_UP)) == 2, what="it is given up")
        assert (await resume(records(broker, GIVEN_UP)[1].position)).code == 0
        await until(lambda: len(records(broker, GIVEN_UP)) == 3, what="it is given up again")
        assert (await resume(records(broker, GIVEN_UP)[1].position)).code == 1
        assert (await resume(records(broker, GIVEN_UP)[2].position)).code == 0
        assert bodies(broker) == [b"hello"]


async def test_a_resume_is_answered_when_the_disk_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With SYNC_FLUSH: a loss of power takes none that an administrator was told of."""
    sync = {"flushDiskType": "SYNC_FLUSH", "transactionCheckMax": "1"}
    held: list[Callable[[bool], None]] = []
    async with (
        running_broker(tmp_path, **sync, **SOON) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        half = await begin(peer)
        await until(lambda: bool(records(broker, GIVEN_UP)), what="it is given up")
        (given_up,) = records(broker, GIVEN_UP)
        fields = {"topic": "T", "msgId": f"{half['msgId'][:-16]}{given_up.position:016X}"}
        code = RequestCode.RESUME_CHECK_HALF_MESSAGE
        with monkeypatch.context() as slow_disk:
            slow_disk.setattr(
                broker.store.flusher, "request", lambda position, done: held.append(done)
            )
            await peer.send(encode_frame(Command(code=code, ext=fields, opaque=next_opaque())))
            await until(lambda: bool(held), what="the disk is asked")
        for done in held:
            done(True)
        assert (await peer.read()).code == 0


async def test_who_wants_no_check_for_a_time_gets_none(broker: Broker, peer: RawPeer) -> None:
    """The others' checks do not wait for it."""
    assert (await peer.request(producer_beat())).code == 0
    await begin(peer, b"immune", CHECK_IMMUNITY_TIME_IN_SECONDS="1")
    half = await begin(peer, b"plain")
    asked = await peer.read()
    assert asked.ext["transactionId"] == half["transactionId"]
    assert await end(peer, asked.ext, COMMIT, checked=True) == (0, "")
    with pytest.raises(TimeoutError):
        await peer.read(0.5)
    assert (await peer.read()).ext["transactionId"] == b"immune".hex().upper()


async def test_a_copy_that_is_due_at_once_is_not_lost(broker: Broker, peer: RawPeer) -> None:
    """Its immunity may end while it is stored; it is in no file before the turn is over."""
    half = await begin(peer, b"immune", CHECK_IMMUNITY_TIME_IN_SECONDS="1")
    halves, checks = transactions(broker).halves, transactions(broker).checks
    (first,) = halves
    record = checks._record(first)
    assert record is not None
    copy = checks._copy(record, copied_text(record.properties, 0, first.offset))
    halves.put_off(copy, 0)
    checks._slice()
    assert list(halves) == [copy]
    assert (await peer.request(producer_beat())).code == 0
    assert (await peer.read()).ext["transactionId"] == half["transactionId"]


async def test_settings_of_checks_work_at_once(tmp_path: Path) -> None:
    """What waits already is asked about by the new ones."""
    async with (
        running_broker(tmp_path, transactionTimeOut="3600000") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert (await peer.request(producer_beat())).code == 0
        await begin(peer)
        change = Command(
            code=RequestCode.UPDATE_BROKER_CONFIG, body=b"transactionTimeOut=50",
            opaque=next_opaque(),
        )  # fmt: skip
        await peer.send(encode_frame(change))
        codes = {(await peer.read()).code for _ in range(2)}
        assert codes == {0, RequestCode.CHECK_TRANSACTION_STATE}


async def test_nothing_is_scheduled_while_nothing_is_open(broker: Broker, peer: RawPeer) -> None:
    """RocketMQ 5.5.0 keeps a core busy from the first transaction on."""
    half = await begin(peer)
    await peer.send(encode_frame(end_command(half, COMMIT, oneway=True)))
    feature = transactions(broker)
    await until(lambda: not feature.halves and not feature._ops._call, what="its op message")
    offsets = broker.context.tables.offsets
    await until(lambda: feature._progress._call is None, what="progress is noted")
    assert offsets.committed("CID_RMQ_SYS_TRANS", HALF, 0) == 1
    assert offsets.committed("CID_RMQ_SYS_TRANS", OP, 0) == 1
    await until(lambda: feature.checks._call is None, what="the timer of its check")
    await asyncio.sleep(0.15)
    assert feature.checks._call is None


async def test_a_broker_with_as_many_topics_as_it_may_have_gives_up_too(tmp_path: Path) -> None:
    """The topic of what was given up is its own, and made when it is needed."""
    async with (
        running_broker(tmp_path, transactionCheckMax="1", topicsMax="100", **SOON) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        half = await begin(peer)
        topics = broker.context.tables.topics
        for number in range(100 - len(topics)):
            topics.create_on_send(f"T{number}", "TBW102", 1)
        await until(lambda: bool(records(broker, GIVEN_UP)), what="it is given up")
        assert topics.get(GIVEN_UP) is not None
        assert (await end(peer, half, COMMIT))[0] == ResponseCode.SYSTEM_ERROR


async def test_one_that_cannot_be_looked_at_leaves_the_others_their_question(
    broker: Broker, peer: RawPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those before it in a slice have been counted as asked about, and are."""
    one = HalfChecks._one

    def without_memory(self: HalfChecks, half: Half, asked: list[tuple[Half, Record]]) -> int:
        if half.key.unique_key == "NONE":
            raise MemoryError("for this one")
        return one(self, half, asked)

    assert (await peer.request(producer_beat())).code == 0
    monkeypatch.setattr(HalfChecks, "_one", without_memory)
    halves = [half_command(b"%d" % n, key=key) for n, key in enumerate(["A", "NONE", "B"])]
    await peer.send(b"".join(map(encode_frame, halves)))
    asked: list[str] = []
    while len(asked) < 4:
        command = await peer.read()
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            times = parse_properties(decode_record(command.body).properties)
            asked.append(
                f"{command.ext['transactionId']} {times.get('TRANSACTION_CHECK_TIMES', '0')}"
            )
    assert {"A 0", "B 0"} <= set(asked), "none is left out"


async def test_a_clock_that_is_set_ahead_makes_nobody_give_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does the log lose its files then: for an hour nothing is too old."""
    ahead_ms = [0]
    monkeypatch.setattr(feature, "wall_clock_ms", lambda: wall_clock_ms() + ahead_ms[0])
    async with (
        running_broker(tmp_path, **SOON) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert (await peer.request(producer_beat())).code == 0
        half = await begin(peer)
        await peer.read()
        ahead_ms[0] = 200 * 3_600_000
        await peer.read()
        assert await end(peer, half, COMMIT) == (0, "")
        assert bodies(broker) == [b"hello"]
        assert not records(broker, GIVEN_UP)


async def test_who_wants_no_check_for_ever_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It moves on, so that progress does, and ends when messages are too old to be kept."""
    monkeypatch.setattr("aerobee.broker.features.transactions.halves.MOVE_ON_MS", 100)
    async with (
        running_broker(tmp_path, fileReservedTime="1", **SOON) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        hour_ago = str(wall_clock_ms() - 3_601_000)
        await begin(peer, b"old", CHECK_IMMUNITY_TIME_IN_SECONDS="99999999", g=hour_ago)
        ahead = str(1 << 60)
        await begin(peer, b"ahead", CHECK_IMMUNITY_TIME_IN_SECONDS="99999999", g=ahead)
        await until(lambda: bool(records(broker, GIVEN_UP)), what="it is given up")
        assert [record.body for record in records(broker, GIVEN_UP)] == [b"old"]
        await until(lambda: len(records(broker, HALF)) > 4, what="the other one moves on")
        *_, moved = records(broker, HALF)
        pairs = parse_properties(moved.properties)
        assert (moved.body, pairs["TRAN_PREPARED_QUEUE_OFFSET"]) == (b"ahead", "1")
        assert moved.born_timestamp <= wall_clock_ms(), "it will be too old once, too"
        assert "TRANSACTION_CHECK_TIMES" not in pairs


async def test_a_half_without_room_for_a_count_does_not_keep_the_others_waiting(
    tmp_path: Path,
) -> None:
    """RocketMQ takes 32,767 bytes of properties, and can make no copy of such a one."""
    async with (
        running_broker(tmp_path, transactionTimeOut="60000") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await begin(peer, b"full")
        (record,) = records(broker, HALF)
        writing = broker.context.writing
        pairs = parse_properties(record.properties) | {"UNIQ_KEY": "FULL", "pad": ""}
        spare = 32_767 - len(join_properties(pairs))
        text = join_properties(pairs | {"pad": "x" * spare}).encode()
        stamp = Stamp(writing.store_host, writing.store_host).at(wall_clock_ms())
        queue = writing.queues.get(HALF, 0)
        writing.appender.append(queue, 0, wall_clock_ms(), stamp, [(0, b"full", text, 0)])
        writing.tick.commit_log()
    async with (
        running_broker(tmp_path, transactionCheckMax="2", **SOON) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert (await peer.request(producer_beat())).code == 0
        half = await begin(peer, b"late")
        asked = [await peer.read() for _ in range(3)]
        assert {each.ext["transactionId"] for each in asked} >= {half["transactionId"], "FULL"}
        await until(lambda: len(records(broker, GIVEN_UP)) == 3, what="all are given up")
        assert not transactions(broker).halves
