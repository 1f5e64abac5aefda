"""Replies to requests: handed to who asked, stored, answered in RocketMQ's words."""

import asyncio
import re
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.servers.live_broker import LiveBroker, live_broker
from support.waiting import until

from aerobee.broker.features.http import exposition
from aerobee.broker.features.replies import pushing
from aerobee.broker.features.replies.feature import Replies
from aerobee.remoting.bodies import HeartbeatData, ProducerData
from aerobee.remoting.codes import RequestCode, ResponseCode, SysFlag
from aerobee.remoting.command import Command
from aerobee.remoting.message.properties import format_properties, parse_properties
from aerobee.remoting.message.record import decode_record
from aerobee.remoting.net.client import ConnectionPool
from aerobee.remoting.net.connection import Connection
from aerobee.storage.errors import StoreError

TOPIC = "DefaultCluster_REPLY_TOPIC"
SHORT_S = 0.2


class Requester:
    """A client that keeps what is pushed to it, and answers with `code`, or not at all."""

    def __init__(self, live: LiveBroker, client_id: str, code: int | None = 0) -> None:
        self.live, self.client_id, self.code = live, client_id, code
        self.pushed: list[Command] = []
        self.owed: list[tuple[Connection, Command]] = []
        self.pool = ConnectionPool(self._serve)

    def _serve(self, connection: Connection, command: Command) -> None:
        assert command.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        self.pushed.append(command)
        if self.code is not None:
            connection.send(command.reply(self.code, {}, b"", None))
        else:
            self.owed.append((connection, command))

    def wake(self) -> None:
        """Answer what it owes, and all that comes from now on."""
        self.code = 0
        for connection, command in self.owed:
            connection.send(command.reply(0, {}, b"", None))
        self.owed.clear()

    async def beat(self, *groups: str) -> None:
        """Say which groups of producers are here."""
        data = [ProducerData(group_name=group) for group in groups]
        beat = HeartbeatData(client_id=self.client_id, producer_data_set=data)
        assert (await self.live.ask(RequestCode.HEART_BEAT, body=beat, pool=self.pool)).code == 0

    async def leave(self, group: str) -> None:
        """One group of producers leaves."""
        header = {"clientID": self.client_id, "producerGroup": group}
        await self.live.ask(RequestCode.UNREGISTER_CLIENT, header, pool=self.pool)


@asynccontextmanager
async def requester(
    live: LiveBroker,
    client_id: str = "asker",
    code: int | None = 0,
    groups: tuple[str, ...] = ("p",),
) -> AsyncIterator[Requester]:
    """A requester that is known to the broker."""
    made = Requester(live, client_id, code)
    await made.beat(*groups)
    try:
        yield made
    finally:
        await made.pool.close()


async def reply(
    live: LiveBroker,
    body: bytes = b"answer",
    code: int = RequestCode.SEND_REPLY_MESSAGE_V2,
    to: str | None = "asker",
    **fields: Any,
) -> Command:
    """Send a reply as clients do."""
    properties = {"MSG_TYPE": "reply", "CORRELATION_ID": "c-1", "TTL": "3000"}
    if to is not None:
        properties["REPLY_TO_CLIENT"] = to
    values = {
        "a": "repliers", "b": TOPIC, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 7, "h": 3,
        "i": format_properties(properties), "j": 0, "k": "false", "m": "false",
    }  # fmt: skip
    return await live.ask(code, values | fields, body)


def stored(live: LiveBroker) -> list[Any]:
    """Return the records of the reply topic."""
    queue = live.broker.store.find_queue(TOPIC, 0)
    if queue is None:
        return []
    live.broker.context.writing.tick.commit_log()
    positions = [queue.entry(at)[0] for at in range(queue.min_offset, queue.max_offset)]
    found = [live.broker.store.record_at(position) for position in positions]
    return [decode_record(each) for each in found if each is not None]


def outcomes(live: LiveBroker) -> dict[str, int]:
    """Return what became of the replies so far, without zeros."""
    room = next(each for each in live.broker.rooms if isinstance(each, Replies))
    assert room.pushes.count == 0
    return {name: count for name, count in room.pushes.outcomes.items() if count}


async def test_a_reply_is_pushed_and_stored(tmp_path: Path) -> None:
    """Body, flags and properties as sent, hosts and time added; the answer names the copy."""
    async with live_broker(tmp_path) as live, requester(live) as asker:
        packed = zlib.compress(b"answer" * 100)
        done = await reply(live, packed, f=SysFlag.COMPRESSED)
        (push,) = asker.pushed
        assert (done.code, done.remark) == (0, None)
        assert done.ext["queueOffset"] == "0" and len(done.ext["msgId"]) == 32
        assert (done.ext["MSG_REGION"], done.ext["TRACE_ON"]) == ("DefaultRegion", "true")
        assert push.ext | {"bornHost": "", "storeTimestamp": "", "properties": ""} == {
            "producerGroup": "repliers", "topic": TOPIC, "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4", "queueId": "0", "sysFlag": "1", "bornTimestamp": "7",
            "flag": "3", "properties": "", "reconsumeTimes": "0", "unitMode": "false",
            "bornHost": "", "storeHost": live.address, "storeTimestamp": "",
        }  # fmt: skip
        assert push.ext["bornHost"].startswith("127.0.0.1:")
        assert push.ext["bornHost"] != live.address and push.body == packed
        properties = parse_properties(push.ext["properties"])
        assert properties.pop("PUSH_REPLY_TIME").isdigit()
        assert properties["CORRELATION_ID"] == "c-1"
        (record,) = stored(live)
        assert record.body == packed and record.sys_flag & SysFlag.COMPRESSED
        kept = parse_properties(record.properties)
        assert "PUSH_REPLY_TIME" not in kept and kept["CORRELATION_ID"] == "c-1"
        await reply(
            live, b"old", RequestCode.SEND_REPLY_MESSAGE,
            producerGroup="g", topic=TOPIC, defaultTopic="TBW102", defaultTopicQueueNums=4,
            queueId=-1, sysFlag=0, bornTimestamp=1, flag=0,
            properties="REPLY_TO_CLIENT\x01asker\x02",
        )  # fmt: skip
        assert asker.pushed[-1].body == b"old" and len(stored(live)) == 2
        assert outcomes(live) == {"acked": 2}
        text = (await exposition.text(live.broker.context)).decode()
        assert re.search(r'aerobee_replies_total\{[^}]*outcome="acked"[^}]*\} 2', text)


async def test_a_reply_that_is_not_packed_is_not_called_so(tmp_path: Path) -> None:
    """Go's client says so of large ones: readers of their copies could not unpack them."""
    async with live_broker(tmp_path) as live, requester(live) as asker:
        assert (await reply(live, b"plain " * 1_000, f=SysFlag.COMPRESSED)).code == 0
        (push,), (record,) = asker.pushed, stored(live)
        assert push.ext["sysFlag"] == "0" and push.body == record.body == b"plain " * 1_000
        assert not record.sys_flag & SysFlag.COMPRESSED
        named = SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB
        assert (await reply(live, b"plain", f=named)).code == 0
        assert asker.pushed[1].ext["sysFlag"] == str(int(named)), "this its sender has to know"


@pytest.mark.parametrize("kept", [True, False])
async def test_what_cannot_be_pushed_is_refused_in_words_and_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """Nobody there, nobody named, a requester that refuses, is silent, or leaves."""
    monkeypatch.setattr(pushing.Pushes.__init__, "__defaults__", (SHORT_S,))
    settings = {"store_reply_message_enable": kept}
    async with (
        live_broker(tmp_path, **settings) as live,
        requester(live, "refuses", 1),
        requester(live, "silent", None),
        requester(live, "leaves", None) as leaves,
    ):
        absent = await reply(live, to="nobody")
        assert (absent.code, absent.remark) == (
            ResponseCode.SYSTEM_ERROR, "push reply message fail, channel of <nobody> not found."
        )  # fmt: skip
        unnamed = await reply(live, to=None)
        assert unnamed.remark == "reply message properties[REPLY_TO_CLIENT] is null"
        for client_id in ("refuses", "silent"):
            refused = await reply(live, to=client_id)
            assert (refused.code, refused.remark) == (1, f"push reply message to {client_id}fail.")
        waiting = asyncio.create_task(reply(live, to="leaves"))
        await until(lambda: leaves.pushed, what="the push to come")
        await leaves.pool.close()
        assert (await waiting).remark == "push reply message to leavesfail."
        assert len(stored(live)) == (5 if kept else 0)
        assert outcomes(live) == {
            "not_found": 1, "unaddressed": 1, "refused": 1, "silent": 1, "lost": 1
        }  # fmt: skip


async def test_one_silent_requester_leaves_room_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past its own bound, and past that of all, a reply is refused as busy and not stored."""
    monkeypatch.setattr(pushing.Pushes.__init__, "__defaults__", (1.0,))
    settings = {"reply_pushes_max": 6, "reply_pushes_per_client_max": 4}
    async with (
        live_broker(tmp_path, **settings) as live,
        requester(live, "silent", None),
        requester(live, "mute", None),
        requester(live, "asker") as asker,
    ):
        answers = await asyncio.gather(*(reply(live, to="silent") for _ in range(9)))
        codes = [answer.code for answer in answers]
        assert codes.count(ResponseCode.SYSTEM_BUSY) == 5
        assert "[TIMEOUT_CLEAN_QUEUE]broker busy" in str(answers[-1].remark)
        waiting = [asyncio.create_task(reply(live, to="silent")) for _ in range(4)]
        waiting += [asyncio.create_task(reply(live, to="mute"))]
        room = next(each for each in live.broker.rooms if isinstance(each, Replies))
        await until(lambda: room.pushes.count == 5, what="they are under way")
        assert (await reply(live)).code == 0 and len(asker.pushed) == 1
        waiting += [asyncio.create_task(reply(live, to="mute"))]
        await until(lambda: room.pushes.count == 6, what="they are under way")
        assert (await reply(live)).code == ResponseCode.SYSTEM_BUSY
        await asyncio.gather(*waiting)
        assert (await reply(live)).code == 0
        assert len(stored(live)) == 4 + 6 + 2


async def test_a_silent_requester_keeps_no_replier_from_being_read(tmp_path: Path) -> None:
    """Neither the bodies nor the number of its replies count as requests that wait."""
    settings = {"waiting_bytes_max": 64 << 10, "waiting_requests_max": 40}
    async with live_broker(tmp_path, **settings) as live, requester(live, "silent", None) as silent:
        bodies = [b"x" * (30 << 10)] * 3 + [b"x"] * 60 + [b"x" * (30 << 10)]
        waiting = [asyncio.create_task(reply(live, body, to="silent")) for body in bodies]
        await until(lambda: len(silent.pushed) == 64, 5, what="all to be pushed")
        async with asyncio.timeout(5):
            assert (await live.ask(RequestCode.GET_BROKER_CLUSTER_INFO)).code is not None
            async with requester(live, "asker"):
                assert (await reply(live)).code == 0
        assert not any(task.done() for task in waiting)
        assert len(stored(live)) == 65, "copies do not wait for it either"
        silent.wake()
        assert {(await task).code for task in waiting} == {0}


async def test_nobody_is_kept_waiting_for_one_that_stays_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes is pushed, and told at once as not taken, until it answers anything."""
    monkeypatch.setattr(pushing, "PATIENCE_S", 0.1)
    async with live_broker(tmp_path) as live, requester(live, "silent", None) as silent:
        first = asyncio.create_task(reply(live, to="silent"))
        await until(lambda: silent.pushed, what="the first one")
        await asyncio.sleep(0.11)
        for _ in range(6):
            refused = await reply(live, to="silent")
            assert (refused.code, refused.remark) == (1, "push reply message to silentfail.")
        await until(lambda: len(silent.pushed) == 7, what="each is pushed")
        assert not first.done() and len(stored(live)) == 7
        silent.wake()
        assert (await first).code == 0
        assert (await reply(live, to="silent")).code == 0
        assert outcomes(live) == {"silent": 6, "acked": 2}


async def test_the_oldest_gives_its_place_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one requester, or of all: once it has waited for long; a late answer harms nobody."""
    monkeypatch.setattr(pushing, "PATIENCE_S", 1.0)
    settings = {"reply_pushes_max": 4, "reply_pushes_per_client_max": 3}
    async with (
        live_broker(tmp_path, **settings) as live,
        requester(live, "silent", None) as silent,
        requester(live, "mute", None) as mute,
        requester(live, "asker"),
    ):
        waiting = [asyncio.create_task(reply(live, to="silent")) for _ in range(3)]
        await until(lambda: len(silent.pushed) == 3, what="its own bound")
        assert (await reply(live, to="silent")).code == ResponseCode.SYSTEM_BUSY
        waiting.append(asyncio.create_task(reply(live, to="mute")))
        await until(lambda: mute.pushed, what="the bound of all")
        assert (await reply(live)).code == ResponseCode.SYSTEM_BUSY
        await asyncio.sleep(1.01)
        assert (await reply(live)).code == 0
        assert (await waiting[0]).remark == "push reply message to silentfail."
        assert [task.done() for task in waiting] == [True, False, False, False]
        silent.wake()
        mute.wake()
        assert [(await task).code for task in waiting] == [1, 0, 0, 0]
        assert outcomes(live) == {"busy": 2, "acked": 4, "silent": 1}


async def test_a_client_is_found_while_one_of_its_groups_is_left(tmp_path: Path) -> None:
    """By its newest connection; not when its last group is gone (RocketMQ forgets it at once)."""
    async with (
        live_broker(tmp_path) as live,
        requester(live, groups=("p", "q")) as old,
        requester(live) as new,
    ):
        await reply(live)
        assert (len(old.pushed), len(new.pushed)) == (0, 1)
        await new.leave("p")
        await old.leave("p")
        assert (await reply(live)).code == 0 and len(old.pushed) == 1
        await old.leave("q")
        assert "not found" in str((await reply(live)).remark)
        await old.beat("p")
        assert (await reply(live)).code == 0
        old.client_id = "renamed"
        await old.beat("p")
        assert "not found" in str((await reply(live)).remark)
        assert (await reply(live, to="renamed")).code == 0
        await old.pool.close()
        await until(lambda: not live.broker.context.consumers.members.producers(), what="the end")
        assert live.broker.context.consumers.members.producer_connection("renamed") is None
        await new.pool.close()
        room = next(each for each in live.broker.rooms if isinstance(each, Replies))
        await until(lambda: not room.pushes._requesters, what="nothing to be kept of them")


@pytest.mark.parametrize(
    "given",
    [
        "REPLY_TO_CLIENT\x01asker\x02",
        "REPLY_TO_CLIENT\x01asker\x02CORRELATION_ID\x01\x02",
        "CORRELATION_ID\x01a\x02CORRELATION_ID\x01b\x02REPLY_TO_CLIENT\x01asker\x02",
        f"REPLY_TO_CLIENT\x01asker\x02CORRELATION_ID\x01{'ü' * 9_000}\x02TTL\x01-1\x02",
        "\x01\x02\x02REPLY_TO_CLIENT\x01asker\x02CORRELATION_ID\x01{}%s\x02no pair",
    ],
)
async def test_ids_are_the_requesters_affair(tmp_path: Path, given: str) -> None:
    """Whatever a replier says of the request, who asked is told, and knows that it is none."""
    async with live_broker(tmp_path) as live, requester(live) as asker:
        assert (await reply(live, i=given)).code == 0
        told = parse_properties(asker.pushed[0].ext["properties"])
        assert told.pop("PUSH_REPLY_TIME")
        assert told == parse_properties(given)
        (record,) = stored(live)
        assert record.body == b"answer"


async def test_what_is_no_message_is_refused_before_anybody_hears_of_it(tmp_path: Path) -> None:
    """An empty or too large body, a batch, a bad topic, no permission."""
    async with live_broker(tmp_path, max_message_size=100) as live, requester(live) as asker:
        for body, fields in (
            (b"", {}),
            (b"x" * 101, {}),
            (b"x", {"m": "true"}),
            (b"x", {"b": "bad topic"}),
            (b"x", {"b": "SCHEDULE_TOPIC_XXXX"}),
            (b"x", {"e": 99}),
        ):
            answer = await reply(live, body, **fields)
            assert answer.code != 0 and answer.remark
        assert not asker.pushed and not stored(live)


async def test_a_store_that_refuses_spoils_no_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The requester has its answer: the replier is not told otherwise; it is counted."""
    async with live_broker(tmp_path) as live, requester(live) as asker:

        def full(*_: object) -> None:
            raise StoreError("the disk is full")

        storing = live.broker.context.sends.storing
        monkeypatch.setattr(storing._appender, "append", full)
        done = await reply(live)
        assert (done.code, done.ext["msgId"], len(asker.pushed)) == (0, "0", 1)
        room = next(each for each in live.broker.rooms if isinstance(each, Replies))
        assert room.not_stored == 1


async def test_switched_off_it_is_not_served(tmp_path: Path) -> None:
    """Then a reply gets RocketMQ's words for a code that nobody knows."""
    async with live_broker(tmp_path, reply_pushes_max=0) as live:
        answer = await reply(live)
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
