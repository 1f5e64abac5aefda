"""A message that is read from a copy has no place in the log: what it says instead finds it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, running_broker, send_command
from support.waiting import until

from aerobee.broker.app import Broker
from aerobee.broker.features.compaction.feature import Compaction
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.message.message_id import kept_place
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.message.record import Record, decode_record, iter_records

COUNT = 5
AT_ONCE = {"messageDelayLevel": ""}  # what a group gives back is there at once
SMALL = {"compactionMappedFileSize": "4600", "compactionCqMappedFileSize": "920"}


@asynccontextmanager
async def compacted(root: Path) -> AsyncIterator[tuple[Broker, RawPeer]]:
    """A broker whose log begins with others' messages; those of topic T come from the copy."""
    async with (
        running_broker(root, **AT_ONCE, **SMALL) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        for _ in range(COUNT):
            await peer.request(send_command(b"somebody else's", topic="other"))
        fields = {
            "topic": "T", "defaultTopic": "TBW102", "readQueueNums": "2", "writeQueueNums": "2",
            "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
            "attributes": "+cleanup.policy=COMPACTION",
        }  # fmt: skip
        await peer.request(Command(code=RequestCode.UPDATE_AND_CREATE_TOPIC, ext=fields))
        for number in range(COUNT):
            sent = send_command(b"v%d" % number, queue_id=1, properties=f"KEYS\x01k{number}\x02")
            assert (await peer.request(sent)).code == ResponseCode.SUCCESS
        feature = broker.features.find(Compaction)
        assert feature is not None
        copy = feature.copies.queue("T", 1)
        await until(lambda: copy.loaded and copy.end == COUNT, what="messages to be copied")
        yield broker, peer


async def pulled(peer: RawPeer, topic: str = "T", queue_id: int = 1) -> list[Record]:
    """What a consumer gets."""
    reply = await peer.request(pull_command(0, topic=topic, queue_id=queue_id))
    return list(iter_records(bytes(reply.body)))


async def test_what_a_group_gives_back_is_the_message_that_it_got(tmp_path: Path) -> None:
    """And not what stands in the log at the copy's position, of whichever topic."""
    async with compacted(tmp_path) as (_, peer):
        given = await pulled(peer)
        assert [kept_place(each.position) for each in given] == [(1, n) for n in range(COUNT)]
        for record in given[:2]:
            fields = {
                "offset": str(record.position), "group": "G", "delayLevel": "0",
                "originTopic": "T", "originMsgId": "x", "unitMode": "false",
            }  # fmt: skip
            back = Command(code=RequestCode.CONSUMER_SEND_MSG_BACK, ext=fields)
            assert (await peer.request(back)).code == ResponseCode.SUCCESS
        again = [bytes(each.body) for each in await pulled(peer, "%RETRY%G", 0)]
        assert again == [b"v0", b"v1"]
        properties = parse_properties((await pulled(peer, "%RETRY%G", 0))[0].properties)
        assert properties["RETRY_TOPIC"] == "T"


async def test_one_that_a_round_has_left_out_is_refused(tmp_path: Path) -> None:
    """So is one of a topic that is not said: clients send such a message anew themselves."""
    async with compacted(tmp_path) as (_, peer):
        (first, *_) = await pulled(peer)
        for position, topic in ((first.position, "other"), (first.position + 1000, "T")):
            fields = {
                "offset": str(position), "group": "G", "delayLevel": "0", "originTopic": topic,
            }  # fmt: skip
            back = Command(code=RequestCode.CONSUMER_SEND_MSG_BACK, ext=fields)
            refused = await peer.request(back)
            assert refused.code == ResponseCode.SYSTEM_ERROR
            assert str(position) in (refused.remark or "")


@pytest.mark.parametrize("topic", ["T", None])
async def test_it_is_viewed_by_its_id_and_topic(tmp_path: Path, topic: str | None) -> None:
    """Without the topic nobody knows which one is meant."""
    async with compacted(tmp_path) as (_, peer):
        wanted = (await pulled(peer))[3]
        fields = {"offset": str(wanted.position)} | ({"topic": topic} if topic else {})
        shown = await peer.request(Command(code=RequestCode.VIEW_MESSAGE_BY_ID, ext=fields))
        if topic is None:
            assert shown.code == ResponseCode.SYSTEM_ERROR
        else:
            assert decode_record(bytes(shown.body)) == wanted
