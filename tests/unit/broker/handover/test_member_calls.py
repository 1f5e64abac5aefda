"""A broker asks members what they hold (307), and whatever comes of it, who asked goes on."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.members import RawMember
from support.servers.live_broker import LiveBroker, live_broker
from support.stand_ins.fake_connection import FakeConnection

from aerobee.broker.handover.environment import Holdings
from aerobee.broker.handover.member_calls import HOLDINGS_BYTES_MAX, MemberCalls
from aerobee.broker.health.faults import Faults
from aerobee.broker.members.group import Client
from aerobee.broker.members.notices import ChangeNotices
from aerobee.remoting.bodies import (
    ConsumerData,
    ConsumerRunningInfo,
    ProcessQueueInfo,
    QueueBody,
    encode_body,
)
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Command, Language
from aerobee.remoting.net.connection import Connection

THREADS = {"PROP_CONSUMEORDERLY": "false", "PROP_THREADPOOL_CORE_SIZE": "20"}


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveBroker]:
    """A broker without messages."""
    async with live_broker(tmp_path) as broker:
        yield broker


async def asked(live: LiveBroker, connection: Connection) -> Holdings | None:
    """Return what a member of G says, as whoever asks gets it."""
    context, loop = live.broker.context, asyncio.get_running_loop()
    answers: asyncio.Future[Holdings | None] = loop.create_future()
    tasks = []
    calls = MemberCalls(
        context.consumers.members,
        ChangeNotices(loop.call_later, lambda: False),
        lambda task: tasks.append(asyncio.ensure_future(task)),
        Faults(),
        "broker-a",
    )
    calls.ask_holdings(connection, "G", answers.set_result)  # twice would raise
    await asyncio.gather(*tasks)
    return answers.result()


async def said(live: LiveBroker, *bodies: bytes) -> Holdings | None:
    """Return what the broker makes of a member's answers to one question."""

    def answer(connection: Connection, command: Command) -> None:
        if command.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            for body in bodies:
                connection.send(command.reply(0, {}, body, None))

    async with RawMember(live.broker.port, "c1", handler=answer) as member:
        await member.beat()
        group = live.broker.context.consumers.members.group("G")
        assert group is not None
        return await asked(live, next(iter(group.members)))


def info(queues: int, count: int = 3) -> bytes:
    """Return an answer that names so many queues."""
    table = {
        QueueBody(topic="t", broker_name="broker-a", queue_id=number): ProcessQueueInfo(
            cached_msg_count=count
        )
        for number in range(queues)
    }
    return encode_body(ConsumerRunningInfo(properties=THREADS, mq_table=table), strict=False)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"null", b"[]", b"{", b"\xff\xfe", b"[" * 100_000, b'{"properties":' * 2_000),
        b'{"mqTable":{"t":1}}',
        b'{"mqTable":{{"topic":"t","brokerName":"b","queueId":0}:{"cachedMsgCount":NaN}}}',
        b'{"mqTable":{{"topic":"t","brokerName":"b","queueId":0}:{"cachedMsgCount":1e999}}}',
        b'{"mqTable":{{"topic":"t","brokerName":"b","queueId":%s}:{}}}' % (b"9" * 5_000),
        b'{"mqTable":{[1]:{}}}',
        b'{"properties":{"pullBatchSize":{}}}',
    ],
)
async def test_an_answer_that_cannot_be_read_is_none(live: LiveBroker, body: bytes) -> None:
    """Whatever a member sends, it harms nobody but itself."""
    assert await said(live, body) is None


async def test_only_the_first_answer_counts(live: LiveBroker) -> None:
    """A member that answers twice says nothing the second time, and stays connected."""
    holdings = await said(live, info(2), info(2, -1), b"{")
    assert holdings is not None
    assert (holdings.held, holdings.threads) == (6, 20)


async def test_an_answer_is_read_as_long_as_that_holds_nobody_up(live: LiveBroker) -> None:
    """Ten thousand queues would stop the broker for a third of a second, each second."""
    holdings = await said(live, info(2_000))
    assert holdings is not None and holdings.held == 6_000
    body = info(10_000)
    assert len(body) > HOLDINGS_BYTES_MAX
    assert await said(live, body) is None


async def test_a_question_that_fails_in_an_unforeseen_way_is_answered(live: LiveBroker) -> None:
    """Or the member would never be asked again, and its group always have to wait in full."""

    class Odd(FakeConnection):
        async def call(self, command: Command, timeout_s: float) -> Command:
            raise ValueError("nobody has thought of this")

    odd = Odd()
    client, data = Client(odd, "c1", Language.JAVA, 513), ConsumerData(group_name="G")
    live.broker.context.consumers.members.register_consumer(client, data, notified=False)
    assert await asked(live, odd) is None
    assert await asked(live, FakeConnection("10.0.0.1:2")) is None  # not a member any more
    live.broker.context.consumers.members.closed(odd)
