"""Half messages on the short way: what is remembered of properties changes nothing for others."""

import re
from functools import partial
from pathlib import Path

import pytest
from support.features.transactions import HALF, end, end_command, records
from support.raw_peer import RawPeer
from support.servers.brokers import running_broker, send_command
from support.waiting import until
from support.wire import Wire, connect

from aerobee.broker.app import Broker
from aerobee.broker.compiled.choice import is_compiled
from aerobee.broker.features.transactions.fast_halves import FastHalves
from aerobee.broker.features.transactions.halves import Half
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.record import Record

LATER = {"transactionTimeOut": "600000"}
USUAL = (
    "KEYS\x01order-%d\x02UNIQ_KEY\x01U%d\x02TAGS\x01a\x02TRAN_MSG\x01true\x02PGROUP\x01pg\x02",
    "UNIQ_KEY\x01U%d\x02TAGS\x01a\x02KEYS\x01order-%d\x02TRAN_MSG\x01true\x02PGROUP\x01pg\x02",
    "UNIQ_KEY\x01U%d\x02TAGS\x01a%d\x02TRAN_MSG\x01true\x02PGROUP\x01pg\x02",
)
REST = "TAGS\x01a\x02TRAN_MSG\x01true\x02PGROUP\x01pg\x02"
ALIKE = (
    f"KEYS\x01kUNIQ_KEY\x01V1\x02{REST}",  # no key of its own: the name is a part of a value
    f"KEYS\x01\x02UNIQ_KEY\x01V2\x02{REST}",
    f"KEYS\x01k\x02KEYS\x01l\x02UNIQ_KEY\x01V3\x02{REST}",
    f"KEYS\x01k\x02UNIQ_KEY\x01V4\x02KEYS\x01l\x02{REST}",
    f"XKEYS\x01k\x02UNIQ_KEY\x01V5\x02{REST}",
    f"KEYS\x01k\x02XUNIQ_KEY\x01V6\x02{REST}",
    f"KEYS\x01k\x02UNIQ_KEY\x01\x02{REST}",
    f"KEYS\x01k\x02UNIQ_KEY\x01V7\x02UNIQ_KEY\x01V8\x02{REST}",
    f"KEYS\x01k\x01k\x02UNIQ_KEY\x01V9\x02{REST}",
    "UNIQ_KEY\x01V10\x02TAGS\x01aKEYS\x01b\x02TRAN_MSG\x01true\x02PGROUP\x01pg\x02",
    "UNIQ_KEY\x01V11\x02TAGS\x01a\x02KEYS\x01k\x02TRAN_MSG\x01true\x02PGROUP\x01pg",
    "UNIQ_KEY\x01V12\x02TAGS\x01a\x02KEYS\x01k TRAN_MSG\x01true\x02PGROUP\x01pg\x02",
    f"KEYS\x01\u00e4\u20ac\x02UNIQ_KEY\x01V13\x02{REST}",
    f"KEYS\x01k\x02UNIQ_KEY\x01V14\x02DELAY\x013\x02{REST}",
)


def usual(found: list[Record]) -> list[bytes]:
    """Return properties, with zeros for a key that the broker has made."""
    return [re.sub(rb"[0-9A-F]{32}", bytes(32), each.properties) for each in found]


async def stored(broker: Broker, peer: RawPeer, properties: str) -> tuple[int, str, list[Record]]:
    """Send a half message; return the answer's code and remark, and what is new in the topic."""
    count = len(records(broker, HALF))
    reply = await peer.request(send_command(b"x", properties=properties, a="pg", f="4"))
    return reply.code, reply.remark or "", records(broker, HALF)[count:]


@pytest.mark.parametrize("compiled", ["true", "false"])
async def test_what_only_looks_like_usual_properties_is_looked_at(
    tmp_path: Path, compiled: str
) -> None:
    """A broker that remembers usual ones does with each what one does that has met none."""
    async with (
        running_broker(tmp_path / "knows", compiledFastPath=compiled, **LATER) as knows,
        running_broker(tmp_path / "fresh", compiledFastPath="false", **LATER) as fresh,
        await RawPeer.connect(knows.port) as one,
        await RawPeer.connect(fresh.port) as two,
    ):
        for number, text in enumerate(USUAL * 2):
            code, _, (half,) = await stored(knows, one, text % (number, number))
            assert code == 0
            assert half.properties.startswith((text % (number, number)).encode())
        halves = knows.context.writing.halves
        assert isinstance(halves, FastHalves)
        if compiled == "false":
            assert len(halves._plain) == 4, "keys that differ make no difference, tags do"
        for text in ALIKE:
            known, other = await stored(knows, one, text), await stored(fresh, two, text)
            assert known[:2] == other[:2], text
            assert usual(known[2]) == usual(other[2]), text
            assert bool(known[2]) == (known[0] == 0)


async def test_a_half_and_its_end_share_a_read_with_others(tmp_path: Path) -> None:
    """Each way of a frame is left for the next one: halves, ENDs, plain sends, in any order."""
    async with (
        running_broker(tmp_path, **LATER) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        halves = []
        for number in range(3):
            text = USUAL[0] % (number, number)
            halves.append(await peer.request(send_command(b"h", properties=text, a="pg", f="4")))
        plain = send_command(b"plain", properties="UNIQ_KEY\x01P\x02")
        more = send_command(b"h", properties=USUAL[0] % (9, 9), a="pg", f="4")
        oneway = [end_command(half.ext, 8, oneway=True) for half in halves[:2]]
        asked = end_command(halves[2].ext, 8)
        commands = [plain, oneway[0], more, oneway[1], plain, asked]
        await peer.send(b"".join(map(encode_frame, commands)))
        replies = [await peer.read() for _ in range(4)]
        assert [reply.code for reply in replies] == [0, 0, 0, 0]
        assert [record.body for record in records(broker, "T")] == [
            b"plain",
            b"h",
            b"h",
            b"plain",
            b"h",
        ]
        assert (await end(peer, replies[1].ext, 8))[0] == 0


def has_replies(wire: Wire, count: int) -> bool:
    """Say whether so many were written."""
    return len(wire.replies()) == count


@pytest.mark.skipif(not is_compiled(), reason="built without a C compiler")
async def test_the_setting_says_at_run_time_who_serves_halves(tmp_path: Path) -> None:
    """Either way the same is stored, and a turn serves no more frames than it may."""

    def half(number: int) -> bytes:
        text = USUAL[0] % (number, number)
        return encode_frame(send_command(b"h", properties=text, a="pg", f="4"))

    async with running_broker(
        tmp_path, compiledFastPath="true", framesPerTurnMax="8", **LATER
    ) as broker:
        connection, wire = connect(broker)
        halves, queue = broker.context.writing.halves, broker.context.writing.queues.get("T", 0)
        assert halves is not None
        for turn, wanted in enumerate((True, False, True), 1):
            broker.live.change(broker.settings.model_copy(update={"compiled_fast_path": wanted}))
            assert (halves.serve_run is not None) is wanted
            for frame in (encode_frame(send_command()), half(10 * turn)):
                count = len(wire.replies()) + 1
                connection.data_received(frame)
                await until(partial(has_replies, wire, count))
            before, count = queue.stored.max_offset, len(wire.replies())
            run = b"".join([half(10 * turn + each) for each in range(1, 6)])
            connection.data_received(run + encode_frame(send_command()) * 20)
            assert queue.stored.max_offset - before == 3, "8 frames"
            await until(partial(has_replies, wire, count + 25))
        assert {reply.code for reply in wire.replies()} == {0}


@pytest.mark.parametrize("compiled", ["true", "false"])
async def test_what_is_larger_than_all_that_may_be_kept_is_read_from_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: str
) -> None:
    """One message never takes the memory of all that wait, and pushes none of them out."""
    monkeypatch.setattr("aerobee.broker.features.transactions.fast_halves.KEPT_BYTES_MAX", 4000)
    async with (
        running_broker(tmp_path, compiledFastPath=compiled, **LATER) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        halves = broker.context.writing.halves
        assert isinstance(halves, FastHalves)
        read, read_half = [], halves._commit

        def commit(half: Half) -> bool:
            read.append(half.key.unique_key)
            return read_half(half)

        monkeypatch.setattr(halves, "_commit", commit)
        begun = []
        for number, body in enumerate((b"admits", b"first", b"small", b"large" * 1000)):
            text = USUAL[0] % (number, number)
            begun.append(await peer.request(send_command(body, properties=text, a="pg", f="4")))
            if number == 1:  # its own queue needs a file
                await end(peer, begun[1].ext, 8)
        for half in begun[2:]:
            await peer.send(encode_frame(end_command(half.ext, 8, oneway=True)))
        await until(lambda: not halves._halves.at(3))
        assert read == ["U3"]
        assert [record.body for record in records(broker, "T")] == [
            b"first",
            b"small",
            b"large" * 1000,
        ]
