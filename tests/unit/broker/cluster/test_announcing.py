"""Topics that are made while messages for them come in."""

import asyncio
import errno
import threading
from pathlib import Path

import msgspec
import pytest
from support.raw_peer import RawPeer
from support.servers.brokers import running_broker, send_command
from support.waiting import until

from aerobee.broker.app import Broker
from aerobee.broker.tables import table_file as json_files
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command, next_opaque
from aerobee.remoting.config.kept_files import replace_file
from aerobee.remoting.frame import encode_frame


def queues(broker: Broker, topic: str) -> int:
    """How many queues a topic has."""
    config = broker.context.tables.topics.get(topic)
    return 0 if config is None else config.read_queue_nums


@pytest.mark.parametrize("how", ["send", "create", "heartbeat"])
async def test_nothing_is_stored_for_a_topic_before_it_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Nor what the same read carries: after a crash nobody could consume it."""
    held, begun = threading.Event(), threading.Event()

    def slow(path: Path, data: bytes, *, private: bool) -> None:
        if path.name == "topics.json":
            begun.set()
            assert held.wait(30)
        replace_file(path, data, private=private)

    topic = "%RETRY%g" if how == "heartbeat" else "new"
    first = send_command(topic=topic)
    if how == "create":
        fields = {"topic": topic, "readQueueNums": "4", "writeQueueNums": "4", "perm": "6"}
        fields |= {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "order": "false"}
        first = Command(RequestCode.UPDATE_AND_CREATE_TOPIC, fields, opaque=next_opaque())
    elif how == "heartbeat":
        body = {"clientID": "c", "consumerDataSet": [{"groupName": "g"}]}
        first = Command(
            RequestCode.HEART_BEAT, body=msgspec.json.encode(body), opaque=next_opaque()
        )
    async with (
        running_broker(tmp_path) as broker,
        await RawPeer.connect(broker.port) as peer,
        await RawPeer.connect(broker.port) as other,
    ):
        monkeypatch.setattr(json_files, "replace_file", slow)
        commands = [first, *(send_command(topic=topic) for _ in range(3))]
        await peer.send(b"".join(map(encode_frame, commands)))
        await asyncio.to_thread(begun.wait, 30)
        await other.request(Command(RequestCode.GET_BROKER_RUNTIME_INFO, opaque=next_opaque()))
        position = broker.context.store.commit_log.position
        held.set()
        assert position == 0
        replies = [await peer.read() for _ in commands]
        assert {reply.code for reply in replies} == {ResponseCode.SUCCESS}, replies
        assert topic.encode() in (broker.settings.config_dir / "topics.json").read_bytes()


async def test_a_change_during_an_announcement_is_kept_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who changes a topic that is being made is answered when the change is on disk."""
    held, begun = threading.Event(), threading.Event()

    def slow(path: Path, data: bytes, *, private: bool) -> None:
        begun.set()
        assert held.wait(30)
        replace_file(path, data, private=private)

    async with running_broker(tmp_path) as broker, await RawPeer.connect(broker.port) as peer:
        monkeypatch.setattr(json_files, "replace_file", slow)
        await peer.send(encode_frame(send_command(topic="new")))
        await asyncio.to_thread(begun.wait, 30)
        fields = {"topic": "new", "readQueueNums": "9", "writeQueueNums": "9", "perm": "6"}
        fields |= {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "order": "false"}
        change = Command(RequestCode.UPDATE_AND_CREATE_TOPIC, fields, opaque=next_opaque())
        await peer.send(encode_frame(change))
        await until(lambda: queues(broker, "new") == 9, what="the change")
        held.set()
        while (reply := await peer.read()).opaque != change.opaque:
            pass
        assert reply.code == ResponseCode.SUCCESS
        kept = msgspec.json.decode((broker.settings.config_dir / "topics.json").read_bytes())
        assert kept["topicConfigTable"]["new"]["readQueueNums"] == 9


async def test_a_topic_that_could_not_be_kept_takes_nothing_until_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each send tries again; what was acknowledged can be consumed after a crash."""
    full = True

    def refuse(path: Path, data: bytes, *, private: bool) -> None:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace_file(path, data, private=private)

    async with running_broker(tmp_path) as broker, await RawPeer.connect(broker.port) as peer:
        monkeypatch.setattr(json_files, "replace_file", refuse)
        for _ in range(3):
            reply = await peer.request(send_command(topic="new"))
            assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert "No space left" in (reply.remark or "")
        assert broker.context.store.commit_log.position == 0
        full = False
        assert (await peer.request(send_command(topic="new"))).code == ResponseCode.SUCCESS
        assert b'"new"' in (broker.settings.config_dir / "topics.json").read_bytes()
        assert not broker.context.cluster.announcements
