"""What tools make a group do: offsets that are reset, questions that are passed on to members."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.members import RawMember, offset_of
from support.servers.live_broker import LiveBroker, live_broker
from support.waiting import until

from aerobee.remoting.bodies import (
    ConsumerStatusBody,
    QueueBody,
    ResetOffsetBody,
    ResetOffsetBodyForC,
    decode_body,
    encode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command, Language
from aerobee.remoting.net.connection import Connection

QUEUE = QueueBody(topic="T", broker_name="broker-a", queue_id=0)
RESET = {"topic": "T", "group": "G", "timestamp": 0, "isForce": "true"}


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[LiveBroker]:
    """A broker with four messages in queue 0 of topic T."""
    async with live_broker(tmp_path) as broker:
        header = {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
        for _ in range(4):
            await broker.ask(RequestCode.SEND_MESSAGE_V2, header, b"hello")
        yield broker


def change(live: LiveBroker, key: str, value: str) -> None:
    """Change a setting of the running broker."""
    live.broker.live.change(live.broker.settings.changed({key: value}))


async def test_the_next_pull_is_sent_where_the_group_was_reset_to(live: LiveBroker) -> None:
    """Until then commits do not count, and who asks is told the new place."""
    async with RawMember(live.broker.port, "c1") as member:
        await member.beat()
        await member.start_of()
        await member.commit(4)
        waiting = asyncio.create_task(member.pull(4, suspend_ms=60_000))
        await until(lambda: live.broker.context.pulls.holds.count == 1)
        reply = await live.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, RESET)
        assert reply.code == ResponseCode.SUCCESS
        table = decode_body(ResetOffsetBody, reply.body).offset_table
        assert len(table) == 4 and table[QUEUE] == 0
        moved = await waiting
        assert (moved.code, moved.ext["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "0")
        assert moved.remark == "OFFSET_RESET"

        await live.ask(
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, RESET | {"queueId": 0, "offset": 2}
        )
        ignored = await member.commit(4)
        assert ignored.remark == "Offset has been previously reset"
        assert offset_of(await member.start_of()) == 2
        assert (await member.pull(4, commit=4)).ext["nextBeginOffset"] == "2"
        await member.commit(3)
        assert offset_of(await member.start_of()) == 3


async def test_resets_that_cannot_be_are_refused(live: LiveBroker) -> None:
    """In RocketMQ's words."""
    code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
    reply = await live.ask(code, RESET | {"topic": "U"})
    assert (reply.code, reply.remark) == (ResponseCode.TOPIC_NOT_EXIST, "Topic U does not exist")
    reply = await live.ask(code, RESET)
    assert reply.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    async with RawMember(live.broker.port, "c1") as member:
        await member.beat()
        reply = await live.ask(code, RESET | {"queueId": 0, "offset": 9})
        assert reply.remark == "Target offset 9 not in consume queue range [0-4]"
        reply = await live.ask(code, RESET | {"queueId": 99, "offset": 9})
        assert reply.code == ResponseCode.INVALID_PARAMETER
        reply = await live.ask(code, RESET | {"timestamp": -1, "queueId": 0})
        assert decode_body(ResetOffsetBody, reply.body).offset_table == {QUEUE: 4}


async def test_members_reset_themselves_where_the_broker_does_not(live: LiveBroker) -> None:
    """C++ clients read a list where Java's read a table."""
    change(live, "useServerSideResetOffset", "false")
    code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
    async with RawMember(live.broker.port, "c1") as java, RawMember(live.broker.port, "c2") as cpp:
        await java.beat()
        reply = await live.ask(code, RESET)
        assert reply.remark == "THe consumer group <G> not exist"
        for queue_id in range(4):
            await java.commit(0, queue_id)
        cpp.language = Language.CPP
        await cpp.beat()
        reply = await live.ask(code, RESET)
        assert decode_body(ResetOffsetBody, reply.body).offset_table[QUEUE] == 0
        for member in (java, cpp):
            await member.hears(RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
        (told,) = [told for told in java.told if told.code == 220]
        assert told.ext["group"] == "G" and told.ext["isForce"] == "true" and told.is_oneway
        assert decode_body(ResetOffsetBody, told.body).offset_table[QUEUE] == 0
        (told,) = [told for told in cpp.told if told.code == 220]
        assert decode_body(ResetOffsetBodyForC, told.body).offset_table[0].queue_id == 0
    await until(lambda: live.broker.context.consumers.members.group("G") is None)
    reply = await live.ask(code, RESET)
    assert reply.code == ResponseCode.CONSUMER_NOT_ONLINE


async def test_members_tell_where_they_are(live: LiveBroker) -> None:
    """All of them, or one; who does not answer is left out."""
    code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
    fields = {"topic": "T", "group": "G"}
    assert (await live.ask(code, fields)).code == ResponseCode.SYSTEM_ERROR

    def answer(connection: Connection, command: Command) -> None:
        if command.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
            body = ConsumerStatusBody(message_queue_table={QUEUE: 3})
            connection.send(command.reply(0, {}, encode_body(body, strict=False)))

    def refuse(connection: Connection, command: Command) -> None:
        if command.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
            connection.send(command.reply(ResponseCode.SYSTEM_ERROR))

    async with (
        RawMember(live.broker.port, "c1", handler=answer) as one,
        RawMember(live.broker.port, "c2", handler=refuse) as two,
    ):
        await one.beat()
        await two.beat()
        for client in ("", "c1"):
            reply = await live.ask(code, fields | {"clientAddr": client})
            table = decode_body(ConsumerStatusBody, reply.body).consumer_table
            assert table == {"c1": {QUEUE: 3}}
        reply = await live.ask(code, fields | {"clientAddr": "c2"})
        assert decode_body(ConsumerStatusBody, reply.body).consumer_table == {}


async def test_questions_are_passed_on(live: LiveBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The member's answer is the broker's, whatever it is; it may be away, or silent."""
    asked: list[Command] = []

    def answer(connection: Connection, command: Command) -> None:
        if command.code in (307, 309):
            asked.append(command)
            if command.ext["clientId"] == "c1":
                connection.send(command.reply(0, {"x": "y"}, b"{}", "well"))

    sent = await live.ask(
        RequestCode.SEND_MESSAGE_V2,
        {"a": "p", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0},
        b"again",
    )
    monkeypatch.setattr("aerobee.broker.processors.resets.ANSWER_TIMEOUT_S", 0.1)
    fields = {"consumerGroup": "G", "clientId": "c1", "jstackEnable": "true"}
    reply = await live.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, fields)
    assert (reply.code, reply.remark) == (1, "The Consumer <G> <c1> not online")
    async with (
        RawMember(live.broker.port, "c1", handler=answer) as one,
        RawMember(live.broker.port, "c2", handler=answer) as two,
    ):
        await one.beat()
        await two.beat()
        reply = await live.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, fields)
        assert (reply.code, reply.body, reply.remark, reply.ext) == (0, b"{}", "well", {"x": "y"})
        assert asked[-1].ext == fields
        reply = await live.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, fields | {"clientId": "c2"})
        assert reply.code == ResponseCode.CONSUME_MSG_TIMEOUT
        fields = {"consumerGroup": "G", "clientId": "c1", "msgId": sent.ext["msgId"], "topic": "T"}
        reply = await live.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields)
        assert reply.remark == "well"
        assert b"again" in bytes(asked[-1].body) and asked[-1].ext["brokerName"] == "broker-a"
        assert asked[-1].ext["topicSysFlag"] == "0" and asked[-1].ext["groupSysFlag"] == "0"
        reply = await live.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields | {"msgId": "7F000001"})
        assert reply.code == ResponseCode.INVALID_PARAMETER
        one.version_number = 10
        await one.beat()
        reply = await live.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields)
        assert reply.remark == "the client does not support this feature. version=10"
