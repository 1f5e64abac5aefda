"""Signed pulls that come again are answered by compiled code, to nobody else and no longer."""

from pathlib import Path

import pytest
from support.features.access import AskingUser, asking_broker, signed
from support.raw_peer import RawPeer
from support.repeated_pulls import Repeated, counted

from aerobee.broker.compiled.choice import is_compiled
from aerobee.remoting.bodies import UserInfo
from aerobee.remoting.codes import RequestCode as Code
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.record import iter_records

DENIED = ResponseCode.NO_PERMISSION
pytestmark = pytest.mark.skipif(not is_compiled(), reason="built without a C compiler")


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> Repeated:
    """Count what compiled code answers."""
    return counted(monkeypatch)


def pull(name: str, offset: int, opaque: int, **fields: str) -> bytes:
    """A pull as a user signs it."""
    header = {
        "consumerGroup": "g", "topic": "t", "queueId": "0", "queueOffset": str(offset),
        "maxMsgNums": "1", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0",
        "subscription": "*", "subVersion": "0",
    }  # fmt: skip
    ext = signed(name, header | fields)
    return encode_frame(Command(Code.PULL_MESSAGE, ext, opaque=opaque))


async def fill(user: AskingUser, count: int = 20) -> None:
    """Send numbered messages."""
    for number in range(count):
        assert (await user.send("t", b"%d" % number)).code == 0


async def pulled(peer: RawPeer, name: str, first: int, count: int = 5) -> list[bytes]:
    """Pull one after the other, in one write; return the bodies, or the remarks."""
    for at in range(first, first + count):
        await peer.send(pull(name, at, 1000 + at))
    found = []
    for at in range(first, first + count):
        reply = await peer.read()
        assert reply.opaque == 1000 + at
        records = [bytes(each.body) for each in iter_records(reply.body)]
        found += records or [(reply.remark or "").encode()]
    return found


def numbers(first: int, count: int = 5) -> list[bytes]:
    """What `fill` has sent."""
    return [b"%d" % number for number in range(first, first + count)]


async def test_signatures_differ_and_the_pull_is_the_same(
    tmp_path: Path, repeated: Repeated
) -> None:
    """Each offset has another signature; what was learned answers all, until rights change."""
    async with asking_broker(tmp_path) as asked:
        ann = await asked.with_rights("ann", "Topic:t Pub Sub", "Group:g Sub")
        await fill(ann)
        async with await RawPeer.connect(asked.live.broker.port) as peer:
            assert await pulled(peer, "ann", 0) == numbers(0)
            before = repeated.pulls
            assert await pulled(peer, "ann", 5) == numbers(5)
            assert await pulled(peer, "ann", 10) == numbers(10)
            assert repeated.pulls >= before + 10
            await asked.root.allow("ann", "Group:g", "Sub", decision="Deny")
            before = repeated.pulls
            refused = await pulled(peer, "ann", 0)
            assert all(b"has no permission" in remark for remark in refused), refused
            await asked.root.allow("ann", "Group:g", "Sub")
            assert await pulled(peer, "ann", 3) == numbers(3)
            off = UserInfo(user_status="disable")
            await asked.root.ask(Code.AUTH_UPDATE_USER, {"username": "ann"}, off)
            assert set(await pulled(peer, "ann", 0)) == {b"User:ann is disabled."}


async def test_bytes_of_another_are_asked(tmp_path: Path, repeated: Repeated) -> None:
    """What was learned of one user is nobody else's: neither bob's pulls nor ann's by bob."""
    async with asking_broker(tmp_path) as asked:
        ann = await asked.with_rights("ann", "Topic:t Pub Sub", "Group:g Sub")
        await asked.with_rights("bob", "Topic:u Pub")
        await fill(ann)
        port = asked.live.broker.port
        async with await RawPeer.connect(port) as mine, await RawPeer.connect(port) as other:
            for first in (0, 5):
                assert await pulled(mine, "ann", first) == numbers(first)
            learned = repeated.pulls
            assert learned
            await other.send(pull("ann", 7, 1).replace(b"Signature", b"Signaturf"))
            assert (await other.read()).code == DENIED
            forged = pull("ann", 7, 2)
            at = forged.index(b'"Signature":"') + len(b'"Signature":"')
            await other.send(forged[:at] + b"A" * 28 + forged[at + 28 :])
            assert (await other.read()).remark == "check signature failed."
            assert all(b"has no permission" in remark for remark in await pulled(other, "bob", 0))
            assert repeated.pulls == learned
            assert await pulled(mine, "ann", 10) == numbers(10)
            assert repeated.pulls > learned
            unsigned = Command(Code.PULL_MESSAGE, {"consumerGroup": "g", "topic": "t",
                "queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "4",
                "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*",
                "subVersion": "0"}, opaque=9)  # fmt: skip
            await mine.send(encode_frame(unsigned))
            assert (await mine.read()).remark == "username cannot be null."


@pytest.mark.parametrize("text", ['A"B', "A\\\\B", "A" * 27, "A" * 29, "\u00e4" * 14])
async def test_a_signature_that_is_none_is_a_pull_of_its_own(
    tmp_path: Path, repeated: Repeated, text: str
) -> None:
    """It is read by Python, and served on a connection whose user has passed, as before."""
    async with asking_broker(tmp_path) as asked:
        ann = await asked.with_rights("ann", "Topic:t Pub Sub", "Group:g Sub")
        await fill(ann)
        async with await RawPeer.connect(asked.live.broker.port) as peer:
            for first in (0, 5):
                assert await pulled(peer, "ann", first) == numbers(first)
            frame = encode_frame(
                Command(Code.PULL_MESSAGE, {"consumerGroup": "g", "topic": "t", "queueId": "0",
                    "queueOffset": "3", "maxMsgNums": "1", "sysFlag": "4", "commitOffset": "0",
                    "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
                    "AccessKey": "ann", "Signature": text}, opaque=5)
            )  # fmt: skip
            before = repeated.pulls
            await peer.send(frame)
            reply = await peer.read()
            assert [bytes(each.body) for each in iter_records(reply.body)] == [b"3"]
            assert repeated.pulls == before
