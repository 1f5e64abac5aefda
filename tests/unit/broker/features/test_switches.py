"""What can be switched off is not there then: no module, no request code, no metric, no file."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from support.features.dedup import topic_command
from support.raw_peer import RawPeer
from support.servers.brokers import pull_command, running_broker, send_command
from support.waiting import until

from aerobee.broker.app import Broker
from aerobee.broker.features.delays.feature import Delays
from aerobee.broker.features.http import exposition
from aerobee.broker.processors.runtime_info import runtime_info
from aerobee.broker.room import Room
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command, next_opaque
from aerobee.remoting.message.record import iter_records

DELAYED = "UNIQ_KEY\x01D1\x02DELAY\x011\x02"
OFFSETS = RequestCode.GET_ALL_DELAY_OFFSET
ROOMS = """
import asyncio, sys
from pathlib import Path

from support.servers.brokers import running_broker

async def main(folder, **options):
    async with running_broker(folder, **options):
        rooms = {name.split(".")[3] for name in sys.modules if name.endswith(".feature")
                 and name.startswith("aerobee.broker.features.") and name.count(".") == 4}
        print(*sorted(rooms))

asyncio.run(main(Path(sys.argv[1]), **dict(each.split("=") for each in sys.argv[2:])))
"""


SWITCHES: Final = {
    "delays": "messageDelayLevel=",
    "index": "messageIndexEnable=false",
    "replies": "replyPushesMax=0",
    "timers": "timerWheelEnable=false",
    "topic_retention": "topicRetentionEnable=false",
    "transactions": "transactionEnable=false",
}
"""What switches off each feature that a broker has unless it is told so."""
WISHES: Final = {
    "access": ["authenticationEnabled=true"],
    "sql92": ["enablePropertyFilter=true"],
    "light_queues": ["enableLmq=true", "enableMultiDispatch=true"],
}
"""What switches on the others."""
ASKED: Final = {
    "compaction": ("cleanup.policy=COMPACTION", "enableCompaction=false"),
    "dedup": ("aerobee.dedup.seconds=60", "dedupEntriesMax=0"),
}
"""The attribute of a topic that asks for each of those that wait for one, and what forbids it."""
ALWAYS: Final = {"batch_queues", "static_topics"}
"""What a topic's attribute or mapping switches on, which stands in its files: no key is asked."""


@pytest.mark.parametrize(
    "off", [[], [*SWITCHES], [*SWITCHES][::2], [*SWITCHES][1::2]], ids=lambda off: str(len(off))
)
@pytest.mark.parametrize("on", [[], [*WISHES]], ids=lambda on: str(len(on)))
def test_what_is_switched_off_is_not_imported(
    tmp_path: Path, off: list[str], on: list[str]
) -> None:
    """Each feature costs a start its own time alone."""
    options = [SWITCHES[room] for room in off] + [each for room in on for each in WISHES[room]]
    command = [sys.executable, "-c", ROOMS, str(tmp_path), *options]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    rooms = sorted({*SWITCHES, *on, *ALWAYS} - set(off))
    assert done.stdout.strip() == " ".join(rooms), done.stderr


@pytest.mark.parametrize("room", [*ASKED])
async def test_what_topics_ask_for_is_made_when_the_first_one_does(
    tmp_path: Path, room: str
) -> None:
    """In a broker that serves, and at the next start; not where it is switched off."""
    attribute, off = ASKED[room]

    def made(broker: Broker) -> list[Room]:
        module = f"aerobee.broker.features.{room}.feature"
        return [each for each in broker.rooms if type(each).__module__ == module]

    async with (
        running_broker(tmp_path) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert (await peer.request(topic_command("plain"))).code == 0
        assert not made(broker)
        for topic in ("T", "U"):
            assert (await peer.request(topic_command(topic, f"+{attribute}"))).code == 0
        assert len(made(broker)) == 1
    async with running_broker(tmp_path, **dict([off.split("=")])) as broker:
        assert not made(broker)
    async with running_broker(tmp_path) as broker:
        assert len(made(broker)) == 1


async def test_a_broker_without_delays_refuses_and_counts_none(tmp_path: Path) -> None:
    """Who asks for a delay hears why; nothing else of it is left."""
    async with (
        running_broker(tmp_path, messageDelayLevel=" ") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert (await peer.request(send_command(b"plain"))).code == 0
        refused = await peer.request(send_command(b"late", properties=DELAYED))
        assert refused.code == ResponseCode.MESSAGE_ILLEGAL
        assert "messageDelayLevel is empty" in (refused.remark or "")
        unknown = await peer.request(Command(code=OFFSETS, opaque=next_opaque()))
        assert unknown.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert b"aerobee_delayed_messages" not in await exposition.text(broker.context)
        assert not any("schedule" in key for key in runtime_info(broker.context))
    assert not (tmp_path / "store" / "config" / "delayOffset.json").exists()


async def test_what_a_group_failed_to_consume_comes_back_at_once(tmp_path: Path) -> None:
    """There is no level for it to wait in, whether the broker or the client counts the tries."""
    async with (
        running_broker(tmp_path, messageDelayLevel="") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert (await peer.request(send_command(b"plain"))).code == 0
        ext = {"offset": "0", "group": "g", "delayLevel": "0", "originTopic": "T"}
        back = Command(code=RequestCode.CONSUMER_SEND_MSG_BACK, ext=ext, opaque=next_opaque())
        assert (await peer.request(back)).code == 0
        again = send_command(b"again", topic="%RETRY%g", properties=DELAYED, j="1")
        assert (await peer.request(again)).code == 0
        found = await peer.request(pull_command(topic="%RETRY%g", offset=0))
        assert [record.body for record in iter_records(found.body)] == [b"plain", b"again"]


async def test_what_waits_stays_while_delays_are_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says so at the start, and it is delivered when there are levels again."""
    async with (
        running_broker(tmp_path, messageDelayLevel="1h") as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        assert (await peer.request(send_command(b"late", properties=DELAYED))).code == 0
        offsets = await peer.request(Command(code=OFFSETS, opaque=next_opaque()))
        assert b"offsetTable" in offsets.body
    async with running_broker(tmp_path, messageDelayLevel="") as broker:
        assert "delayed_messages_stay" in caplog.text
        assert broker.features.find(Delays) is None
    async with running_broker(tmp_path, messageDelayLevel="0s") as broker:
        delays = broker.features.find(Delays)
        assert delays is not None

        def delivered() -> bool:
            queue = broker.store.find_queue("T", 0)
            return queue is not None and queue.max_offset == 1

        await until(delivered, what="it is delivered")
        assert delays.service.waiting() == {1: (1, 1)}
