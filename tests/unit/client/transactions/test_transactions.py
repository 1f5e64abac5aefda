"""A block decides about its message: what it raises, what is lost, and who is told."""

import asyncio
import contextlib
import sqlite3

import pytest
from support.stand_ins.fake_cluster import FakeCluster
from support.stand_ins.fake_transactions import ends, halves
from support.stand_ins.transacting import Answers, one_told, producer, told
from support.waiting import until

from aerobee.client import (
    InvalidMessage,
    InvalidUse,
    Message,
    MessageQueue,
    ProducerSettings,
    SendContext,
    SendFailed,
    SendHook,
    TransactionNotBegun,
    TransactionProducer,
    TransactionSettings,
    TransactionState,
)
from aerobee.remoting.codes import RequestCode, ResponseCode, SysFlag
from aerobee.remoting.command import Command
from aerobee.remoting.errors import ConnectionLost
from aerobee.remoting.message.message_id import parse_offset_message_id
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.routes import Outcome, Reply

SEND = RequestCode.SEND_MESSAGE_V2
COMMIT, ROLLBACK, UNKNOWN = (
    SysFlag.TRANSACTION_COMMIT,
    SysFlag.TRANSACTION_ROLLBACK,
    SysFlag.TRANSACTION_NONE,
)


async def test_a_block_that_ends_commits(cluster: FakeCluster) -> None:
    """The half message says what it is, its end names it, to the master of its queue's broker."""
    cluster.create("t", 2)
    message = Message("t", b"paid", tags="a", keys="k", properties={"x": "y"})
    async with producer(cluster) as transactions:
        async with transactions.transaction(message, key="order-1") as half:
            assert half.state is None and not told(cluster)
            assert transactions.is_deciding(half.message_id)
        assert half.told and half.state is not None
        assert half.state.value == COMMIT
        assert not transactions.is_deciding(half.message_id)
        assert await one_told(cluster) == COMMIT
    broker = next(each for each in cluster.brokers if each.name == half.result.queue.broker_name)
    ((record, end),) = zip(halves(broker, "t"), ends(broker), strict=True)
    properties = parse_properties(record.properties)
    assert properties == {
        "UNIQ_KEY": half.message_id,
        "KEYS": "k",
        "TAGS": "a",
        "TRAN_MSG": "true",
        "PGROUP": "tg",
        "x": "y",
    }
    assert int(broker.requests(SEND)[0].ext["f"]) == SysFlag.TRANSACTION_PREPARED
    assert (end.topic, end.producer_group, end.from_transaction_check) == ("t", "tg", False)
    assert (end.msg_id, end.transaction_id) == (half.message_id, half.message_id)
    assert end.broker_name == broker.name
    assert end.tran_state_table_offset == half.result.queue_offset
    _, _, end_position = parse_offset_message_id(half.result.offset_message_id)
    assert end.commit_log_offset == end_position
    assert message.properties == {"x": "y"}, "the user's message is left as it is"


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (ValueError("no"), ROLLBACK),
        (sqlite3.IntegrityError("no"), ROLLBACK),
        (TimeoutError(), UNKNOWN),
        (ConnectionResetError(), UNKNOWN),
        (asyncio.CancelledError(), UNKNOWN),
        (KeyboardInterrupt(), UNKNOWN),
        (ExceptionGroup("two", [ValueError(), TimeoutError()]), UNKNOWN),
        (ExceptionGroup("two", [ValueError(), KeyError()]), ROLLBACK),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
async def test_an_exception_rolls_back_unless_it_hides_a_commit(
    cluster: FakeCluster, raised: BaseException, expected: int
) -> None:
    """It goes on, as it was raised."""
    cluster.create("t", 1)
    async with producer(cluster) as transactions:
        with contextlib.suppress(BaseException):
            async with transactions.transaction(Message("t", b"x")):
                raise raised
        assert await one_told(cluster) == expected


async def test_what_fails_behind_committing_is_for_the_check(cluster: FakeCluster) -> None:
    """The error of a commit does not tell whether it took place."""
    cluster.create("t", 1)
    async with producer(cluster) as transactions:
        with pytest.raises(sqlite3.OperationalError):
            async with transactions.transaction(Message("t", b"x")) as half:
                half.committing()
                raise sqlite3.OperationalError("disk I/O error")
        assert await one_told(cluster) == UNKNOWN


@pytest.mark.parametrize("state", TransactionState)
async def test_a_decision_stands(cluster: FakeCluster, state: TransactionState) -> None:
    """Whatever is raised behind it; afterwards there is nothing to decide."""
    cluster.create("t", 1)
    async with producer(cluster) as transactions:
        with pytest.raises(ValueError, match="later"):
            async with transactions.transaction(Message("t", b"x")) as half:
                half.decide(state)
                raise ValueError("later")
        assert await one_told(cluster) == state.value
        with pytest.raises(InvalidUse, match="has ended"):
            half.decide(TransactionState.COMMIT)


async def test_a_cancelled_block_ends_at_once_and_unknown(cluster: FakeCluster) -> None:
    """Nothing is awaited on the way out, and nobody is at work at it any more."""
    cluster.create("t", 1)
    async with producer(cluster) as transactions:
        inside = asyncio.Event()

        async def work() -> None:
            async with transactions.transaction(Message("t", b"x")):
                inside.set()
                await asyncio.sleep(60)

        task = asyncio.create_task(work())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not transactions._deciding
        assert await one_told(cluster) == UNKNOWN


async def test_a_lost_reply_is_no_reason_to_send_a_half_twice(cluster: FakeCluster) -> None:
    """The block is not entered, and what may be there is asked about; a refusal is tried again."""
    cluster.create("t", 4)

    def lose(connection: Connection, command: Command) -> Outcome:
        connection.abort("as the test wants")
        return None

    async with producer(cluster) as transactions:
        for broker in cluster.brokers:
            broker.script[SEND].append(lose)
        with pytest.raises(ConnectionLost):
            async with transactions.transaction(Message("t", b"x")):
                pytest.fail("the block is entered")
        assert sum(len(broker.requests(SEND)) for broker in cluster.brokers) == 1
        assert not transactions._deciding
        for broker in cluster.brokers:
            broker.script[SEND].clear()
            broker.refuse(SEND, ResponseCode.SYSTEM_BUSY)
        async with transactions.transaction(Message("t", b"y")) as half:
            pass
        bodies = [record.body for broker in cluster.brokers for record in halves(broker, "t")]
        assert bodies == [b"y"] and half.told


async def test_all_attempts_may_fail(cluster: FakeCluster) -> None:
    """As those of any other send."""
    cluster.create("t", 1)
    for broker in cluster.brokers:
        broker.refuse(SEND, ResponseCode.SYSTEM_ERROR, times=9)
    async with producer(cluster) as transactions:
        with pytest.raises(SendFailed):
            await transactions.transaction(Message("t", b"x")).__aenter__()


async def test_a_half_that_is_not_kept_safely_is_rolled_back(cluster: FakeCluster) -> None:
    """A late flush: the local transaction does not run."""
    cluster.create("t", 1)

    def late(connection: Connection, command: Command) -> Outcome:
        ext = {"msgId": "7F00000100002A9F0000000000000400", "queueId": "0", "queueOffset": "3"}
        return Reply(ext=ext, code=ResponseCode.FLUSH_DISK_TIMEOUT)

    for broker in cluster.brokers:
        broker.script[SEND].append(late)
    async with producer(cluster) as transactions:
        with pytest.raises(TransactionNotBegun, match="FLUSH_DISK_TIMEOUT") as caught:
            async with transactions.transaction(Message("t", b"x")):
                pytest.fail("the block is entered")
        assert caught.value.status == "FLUSH_DISK_TIMEOUT"
        await until(lambda: told(cluster))
    (end,) = [end for broker in cluster.brokers for end in ends(broker)]
    assert (end.commit_or_rollback, end.tran_state_table_offset) == (ROLLBACK, 3)
    assert end.commit_log_offset == 0x400


async def test_an_end_that_nobody_hears_is_no_error(cluster: FakeCluster) -> None:
    """The local transaction is done; the broker will ask."""
    cluster.create("t", 1)
    async with (
        producer(cluster, send_timeout_ms=300) as transactions,
        transactions.transaction(
            Message("t", b"x"), queue=MessageQueue("t", "broker-b", 0)
        ) as half,
    ):
        await cluster.brokers[1].stop()
        address = cluster.brokers[1].address
        assert transactions._instance is not None
        connections = transactions._instance.connections
        await until(lambda: connections.open(address) is None)
    assert (half.state, half.told) == (TransactionState.COMMIT, False)


async def test_an_end_makes_a_connection_where_it_was_lost(cluster: FakeCluster) -> None:
    """A broker that has cut the connection off is told on another one."""
    cluster.create("t", 1)
    queue = MessageQueue("t", "broker-b", 0)
    broker = cluster.brokers[1]
    async with producer(cluster) as transactions:
        async with transactions.transaction(Message("t", b"x"), queue=queue) as half:
            for connection in list(broker.connections):
                connection.abort("as the test wants")
            assert transactions._instance is not None
            connections = transactions._instance.connections
            await until(lambda: connections.open(broker.address) is None)
        assert half.told
        assert await one_told(cluster) == COMMIT


async def test_a_closed_producer_tells_nobody(cluster: FakeCluster) -> None:
    """Its block ends without an error."""
    cluster.create("t", 1)
    transactions = producer(cluster)
    await transactions.start()
    async with transactions.transaction(Message("t", b"x")) as half:
        await transactions.close()
    assert (half.state, half.told) == (TransactionState.COMMIT, False)
    with pytest.raises(InvalidUse, match=r"not started|is closed"):
        await transactions.transaction(Message("t", b"x")).__aenter__()


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Message("t", b"x", delay_level=3), "no delay.*delay_level"),
        (Message("t", b"x", properties={"TIMER_DELAY_MS": "5"}), "no delay.*TIMER_DELAY_MS"),
        (Message("t", b"x", properties={"DELAY": "1"}), "no delay.*DELAY"),
        (Message("t", b"x", properties={"TRAN_MSG": "true"}), "half message"),
        (Message("t", b"x", properties={"PGROUP": "other"}), "said twice"),
        (Message("t", b""), "empty body"),
    ],
)
async def test_what_is_no_half_is_refused_by_name(
    cluster: FakeCluster, message: Message, why: str
) -> None:
    """Nothing is sent of it."""
    cluster.create("t", 1)
    async with producer(cluster) as transactions:
        with pytest.raises(InvalidMessage, match=why):
            async with transactions.transaction(message):
                pytest.fail("the block is entered")
    assert not [record for broker in cluster.brokers for record in halves(broker, "t")]


async def test_a_transaction_is_used_once(cluster: FakeCluster) -> None:
    """A second half of one block would have no end of its own."""
    cluster.create("t", 1)
    async with producer(cluster) as transactions:
        transaction = transactions.transaction(Message("t", b"x"))
        async with transaction:
            pass
        with pytest.raises(InvalidUse, match="used once"):
            await transaction.__aenter__()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (TransactionState.COMMIT, COMMIT),
        (TransactionState.ROLLBACK, ROLLBACK),
        (TransactionState.UNKNOWN, UNKNOWN),
        (None, UNKNOWN),
        (ValueError("broken"), UNKNOWN),
    ],
)
async def test_a_listener_executes(cluster: FakeCluster, answer: object, expected: int) -> None:
    """What it answers is told; what it raises reaches the caller, and says nothing of the end."""
    cluster.create("t", 1)
    async with producer(cluster) as transactions:
        if isinstance(answer, ValueError):
            with pytest.raises(ValueError, match="broken"):
                await transactions.send_in_transaction(Message("t", b"x"), answer)
        else:
            half = await transactions.send_in_transaction(Message("t", b"x"), answer)
            assert half.state is not None and half.state.value == expected
        assert await one_told(cluster) == expected
    if isinstance(answer, ValueError):
        (command,) = [
            each for one in cluster.brokers for each in one.requests(RequestCode.END_TRANSACTION)
        ]
        assert command.remark == "the transaction raised ValueError: broken"


async def test_hooks_see_halves_and_may_change_them(cluster: FakeCluster) -> None:
    """What a hook adds travels, and the message stays a half one."""

    class Adds(SendHook):
        def before(self, context: SendContext) -> None:
            context.messages[0].properties["added"] = "yes"

    cluster.create("t", 1)
    transactions = TransactionProducer(
        "tg", namesrv=cluster.namesrv, listener=Answers(), hooks=[Adds()]
    )
    async with transactions, transactions.transaction(Message("t", b"x")) as half:
        pass
    (record,) = [record for broker in cluster.brokers for record in halves(broker, "t")]
    assert parse_properties(record.properties)["added"] == "yes"
    assert parse_properties(record.properties)["UNIQ_KEY"] == half.message_id


def test_settings_are_those_of_a_producer() -> None:
    """And refuse what no producer can have."""
    assert isinstance(TransactionSettings(retries_max=1), ProducerSettings)
    with pytest.raises(ValueError, match="check_concurrency"):
        TransactionSettings(check_concurrency=0)
    with pytest.raises(ValueError, match="compression"):
        TransactionSettings(compression="rar")
