"""Messages with a time of their own through the broker's port: sent, looked at, and taken back."""

import asyncio
import base64
import json
import shutil
import struct
import time
from pathlib import Path

import pytest
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, running_broker, send_command
from support.waiting import until

from aerobee.broker.features.http import overview
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command, next_opaque
from aerobee.remoting.message.record import iter_records
from aerobee.storage.layout import TIMER_WHEEL

FORBIDDEN, INVALID = ResponseCode.NO_PERMISSION, ResponseCode.ILLEGAL_OPERATION


def timed(body: bytes, after_ms: int, **pairs: str) -> Command:
    """A send of a message that waits."""
    pairs = {"UNIQ_KEY": body.decode(), "TIMER_DELAY_MS": str(after_ms), **pairs}
    text = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())
    return send_command(body, properties=text)


def recall_command(handle: str, topic: str = "T", group: str = "g") -> Command:
    """A request to take a message back."""
    ext = {"topic": topic, "recallHandle": handle, "producerGroup": group}
    return Command(code=RequestCode.RECALL_MESSAGE, ext=ext, opaque=next_opaque())


async def until_found(peer: RawPeer, bodies: list[bytes]) -> None:
    """Return when these are what consumers see."""
    async with asyncio.timeout(20):
        while True:
            reply = await peer.request(pull_command(0))
            if [bytes(record.body) for record in iter_records(bytes(reply.body))] == bodies:
                return
            await asyncio.sleep(0.02)


async def test_a_message_is_taken_back_by_its_handle(tmp_path: Path) -> None:
    """The other one of its second comes; codes 60 and 61, metrics and `/api` tell of both."""
    async with (
        running_broker(tmp_path, recallMessageEnable="true") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        sent = await peer.request(timed(b"a", 1500))
        assert sent.code == 0 and sent.ext["queueOffset"] == "0", sent
        assert (await peer.request(timed(b"b", 1500))).code == 0
        told = await peer.request(Command(code=RequestCode.GET_TIMER_METRICS, opaque=7))
        assert json.loads(bytes(told.body))["timingCount"]["T"]["count"] == 2
        recalled = await peer.request(recall_command(sent.ext["recallHandle"]))
        assert (recalled.code, recalled.ext["msgId"]) == (0, "a")
        assert recalled.ext["MSG_REGION"] == "DefaultRegion"
        shown = overview.broker(broker.context)["timers"]
        assert shown["waiting"] == 1 and shown["topics"] == {"T": 1}
        await until_found(peer, [b"b"])
        wheel = tmp_path / "store" / TIMER_WHEEL
        await until(wheel.exists)
        check = await peer.request(Command(code=RequestCode.GET_TIMER_CHECK_POINT, opaque=8))
        assert struct.unpack(">7q", check.body)[2] == 3


@pytest.mark.parametrize(
    ("handle", "topic", "settings", "code", "remark"),
    [
        ("", "T", {"recallMessageEnable": "false"}, FORBIDDEN, "operation is forbidden"),
        ("", "Other", {}, ResponseCode.TOPIC_NOT_EXIST, "the topic[Other] not exist"),
        ("junk", "T", {}, INVALID, "recall handle is invalid"),
        ("Other broker-t 5 k", "T", {}, INVALID, "recall failed, topic not match"),
        ("T broker-x 5 k", "T", {}, INVALID, "recall failed, broker service not available"),
        ("T broker-t 5 k", "T", {}, INVALID, "recall failed, timestamp invalid"),
        ("T broker-t now+259201000 k", "T", {}, INVALID, "recall failed, timestamp invalid"),
        ("T broker-t 1" + 5000 * "0" + " k", "T", {}, INVALID, "recall failed, timestamp invalid"),
        ("T broker-t now+9000 k\x02AEROBEE_DELAYED\x01timer-0", "T", {}, INVALID,
         "recall handle is invalid"),
        ("T broker-t now+9000 ", "T", {}, INVALID, "recall handle is invalid"),
        ("T broker-t now+9000 k", "T", {"timerWheelEnable": "false"},
         ResponseCode.SYSTEM_ERROR, "recall failed, execute error"),
        ("T broker-t now+9000 k", "T", {"brokerPermission": "4",
         "allowRecallWhenBrokerNotWriteable": "false"},
         ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available"),
    ],
)  # fmt: skip
async def test_what_cannot_be_taken_back(
    tmp_path: Path, handle: str, topic: str, settings: dict[str, str], code: int, remark: str
) -> None:
    """RocketMQ's checks in its order, and its words."""
    given = {"recallMessageEnable": "true", "brokerName": "broker-t", **settings}
    async with (
        running_broker(tmp_path, **given) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        broker.context.tables.topics.create_on_send("T", "TBW102", 4, 0)
        items = handle.split(" ")
        if len(items) == 4:
            when = items[2].removeprefix("now+")
            time_ms = when if when == items[2] else int(when) + int(time.time() * 1000)
            text = f"v1 {items[0]} {items[1]} {time_ms} {items[3]}"
            handle = base64.urlsafe_b64encode(text.encode()).decode()
        refused = await peer.request(recall_command(handle, topic))
        assert refused.code == code and remark in (refused.remark or ""), refused


async def test_a_group_that_goes_on_as_a_mark_keeps_no_message_back(tmp_path: Path) -> None:
    """What would make a start believe that another one was delivered is not stored."""
    killed = tmp_path / "killed"
    async with (
        running_broker(tmp_path, recallMessageEnable="true") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert (await peer.request(timed(b"kept", 2500))).code == 0
        other = await peer.request(timed(b"other", 60_000))
        group = "g\x02AEROBEE_DELAYED\x01timer-0"
        refused = await peer.request(recall_command(other.ext["recallHandle"], group=group))
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert refused.remark == "recall failed, execute error"
        broker.context.writing.tick.commit_log()
        shutil.copytree(tmp_path / "store", killed / "store")
    async with running_broker(killed) as broker, await RawPeer.connect(broker.port) as peer:
        await until_found(peer, [b"kept"])


async def test_nobody_sends_to_the_timers_own_topic(tmp_path: Path) -> None:
    """One message there without its time stops RocketMQ's timer for good."""
    async with (
        running_broker(tmp_path) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        refused = await peer.request(send_command(topic="rmq_sys_wheel_timer"))
        assert refused.code == ResponseCode.NO_PERMISSION


async def test_a_broker_without_timers_says_what_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It refuses others in RocketMQ's words; switched on again it delivers what was there."""
    async with (
        running_broker(tmp_path) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert (await peer.request(timed(b"a", 600))).code == 0
    async with (
        running_broker(tmp_path, timerWheelEnable="false") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert "timer_messages_stay" in caplog.text
        refused = await peer.request(timed(b"b", 600))
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert refused.remark == "accurate timer message is not enabled, timerWheelEnable is false"
    async with (
        running_broker(tmp_path) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await until_found(peer, [b"a"])
