"""What has passed takes the fast path, and nothing else does, compiled or not."""

from pathlib import Path
from typing import Any

import pytest
from support.features.access import ROOT, AskingUser, asking_broker, signed
from support.raw_peer import RawPeer
from support.servers.live_broker import live_broker

from aerobee.broker.features.access.connection import AskingConnection
from aerobee.broker.features.access.feature import Access
from aerobee.broker.front.connection import BrokerConnection
from aerobee.remoting.bodies import UserInfo
from aerobee.remoting.codes import RequestCode as Code
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import Codec, Command
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.batch import BatchedMessage, encode_batch
from aerobee.remoting.message.record import iter_records
from aerobee.remoting.net.access import guard as guards
from aerobee.remoting.net.access.signature import is_signed

DENIED = ResponseCode.NO_PERMISSION
STATELESS = "org.apache.rocketmq.auth.authentication.strategy.StatelessAuthenticationStrategy"
each_way = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "python"])


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whose signatures were looked at."""
    names: list[str] = []

    def look(secret: bytes, ext: Any, *rest: Any) -> bool:
        names.append(ext.get("AccessKey"))
        return is_signed(secret, ext, *rest)

    monkeypatch.setattr(guards, "is_signed", look)
    return names


async def warm(user: AskingUser, topic: str = "t") -> None:
    """Send until nothing is asked any more: the first is checked, the second lists the topic."""
    for _ in range(2):
        assert (await user.send(topic)).code == 0


@each_way
async def test_what_has_passed_is_not_asked_again(
    tmp_path: Path, looked: list[str], *, compiled: bool
) -> None:
    """Sends, batches and pulls of a user on his connection, in JSON and msgpack."""
    async with asking_broker(tmp_path, compiled_fast_path=compiled) as asked:
        ann = await asked.with_rights("ann", "Topic:t Pub Sub", "Group:g Sub")
        await warm(ann)
        assert (await ann.pull("t", "g")).code == 0
        looked.clear()
        for number in range(5):
            assert (await ann.send("t", b"%d" % number)).code == 0
            pulled = await ann.pull("t", "g", 2 + number)
            assert [bytes(each.body) for each in iter_records(pulled.body)] == [b"%d" % number]
        batch = encode_batch([BatchedMessage(0, b"b%d" % each, b"") for each in range(3)])
        fields = {"a": "p", "b": "t", "c": "TBW102", "d": 1, "e": 0, "f": 0, "g": 1, "h": 0,
                  "m": "true", "i": "UNIQ_KEY\x01B\x02"}  # fmt: skip
        assert (await ann.ask(Code.SEND_BATCH_MESSAGE, fields, batch)).code == 0
        assert not looked
        assert asked.live.broker.store.queue("t", 0).max_offset == 10


@each_way
async def test_another_name_is_asked_on_the_same_connection(
    tmp_path: Path, looked: list[str], *, compiled: bool
) -> None:
    """A frame that says it is another's, or nobody's, never passes as that of who has signed."""
    async with asking_broker(tmp_path, compiled_fast_path=compiled) as asked:
        ann = await asked.with_rights("ann", "Topic:t Pub Sub", "Group:g Sub")
        await asked.root.make_user("bob")
        await warm(ann)
        assert (await ann.pull("t", "g")).code == 0
        bob = asked.user("bob")
        await bob.pool.close()
        bob.pool = ann.pool  # as a proxy would
        for reply in (await bob.send("t"), await bob.pull("t", "g")):
            assert "User:bob has no permission" in (reply.remark or "")
        bob.name = "ann"
        bob.secret = "of bob"
        fields = {"a": "p", "b": "t", "c": "TBW102", "d": 1, "e": 0, "f": 0, "g": 1, "h": 0,
                  "i": "UNIQ_KEY\x01B\x02"}  # fmt: skip
        assert (await bob.ask(Code.SEND_MESSAGE_V2, fields)).remark == "check signature failed."
        nobody = await asked.live.ask(Code.SEND_MESSAGE_V2, fields, b"x", pool=ann.pool)
        assert nobody.remark == "username cannot be null."
        assert asked.live.broker.store.queue("t", 0).max_offset == 2
        assert (await ann.send("t")).code == 0


@each_way
@pytest.mark.parametrize("codec", [Codec.JSON, Codec.MSGPACK, Codec.ROCKETMQ])
async def test_many_frames_of_one_read(
    tmp_path: Path, looked: list[str], codec: int, *, compiled: bool
) -> None:
    """Of three users' mixed frames each is judged by its own name and topic."""
    async with asking_broker(tmp_path, compiled_fast_path=compiled) as asked:
        await asked.with_rights("ann", "Topic:t Pub")
        await asked.with_rights("bob", "Topic:u Pub")
        await asked.root.send("t")
        await asked.root.send("u")
        allowed = {("ann", "t"), ("bob", "u"), (ROOT, "t"), (ROOT, "u")}
        async with await RawPeer.connect(asked.live.broker.port) as peer:
            order = [(name, topic) for name in ("ann", "bob", ROOT) for topic in ("t", "u")] * 6
            frames = b""
            for number, (name, topic) in enumerate(order):
                fields = {"a": "p", "b": topic, "c": "TBW102", "d": 1, "e": 0, "f": 0, "g": 1,
                          "h": 0, "i": f"UNIQ_KEY\x01A{number}\x02"}  # fmt: skip
                ext = signed(name, fields, b"x")
                frames += encode_frame(
                    Command(Code.SEND_MESSAGE_V2, ext, b"x", opaque=number, codec=codec)
                )
            for _ in range(2):
                await peer.send(frames)
                replies = [await peer.read() for _ in order]
                codes = {reply.opaque: reply.code for reply in replies}
                for number, each in enumerate(order):
                    assert (codes[number] == 0) == (each in allowed), each
                    assert codes[number] in (0, DENIED)
        sent = sum(each in allowed for each in order) * 2
        stored = sum(asked.live.broker.store.queue(topic, 0).max_offset for topic in "tu")
        assert stored == sent + 2


@each_way
async def test_a_change_ends_what_has_passed(tmp_path: Path, *, compiled: bool) -> None:
    """Of rights, of the secret, of the user, of the topic, of a setting: at once."""
    async with asking_broker(tmp_path, compiled_fast_path=compiled) as asked:
        root = asked.root
        ann = await asked.with_rights("ann", "Topic:t Pub Sub", "Group:g Sub")
        await warm(ann)
        assert (await ann.pull("t", "g")).code == 0
        await root.allow("ann", "Topic:t", "Pub", decision="Deny")
        assert "the decision is deny" in ((await ann.send("t")).remark or "")
        assert "no matched policies" in ((await ann.pull("t", "g")).remark or "")
        await root.allow("ann", "Topic:t", "Pub")
        await warm(ann)
        assert (await root.ask(Code.DELETE_TOPIC_IN_BROKER, {"topic": "t"})).code == 0
        assert (await ann.send("t")).code == 0  # made anew
        assert asked.live.broker.store.queue("t", 0).max_offset == 1
        await warm(ann)
        assert (await root.ask(Code.UPDATE_BROKER_CONFIG, body=b"regionId=elsewhere")).code == 0
        for _ in range(3):
            assert (await ann.send("t")).ext["MSG_REGION"] == "elsewhere"
        changed = UserInfo(password="another")
        assert (await root.ask(Code.AUTH_UPDATE_USER, {"username": "ann"}, changed)).code == 0
        assert (await ann.send("t")).remark == "check signature failed."
        ann.secret = "another"
        await warm(ann)
        await root.ask(Code.AUTH_UPDATE_USER, {"username": "ann"}, UserInfo(user_status="disable"))
        assert (await ann.send("t")).remark == "User:ann is disabled."
        await root.ask(Code.AUTH_DELETE_USER, {"username": "ann"})
        assert (await ann.send("t")).remark == "check signature failed."


async def test_stateless_looks_at_each_signature(tmp_path: Path, looked: list[str]) -> None:
    """Who names RocketMQ's strategy gets it."""
    async with asking_broker(tmp_path, authentication_strategy=STATELESS) as asked:
        await warm(asked.root)
        looked.clear()
        for _ in range(4):
            assert (await asked.root.send("t")).code == 0
            assert (await asked.root.pull("t", "g")).code == 0
        assert looked == [ROOT] * 8


async def test_connections_share_what_has_passed(tmp_path: Path, looked: list[str]) -> None:
    """A second connection of a user signs once."""
    async with asking_broker(tmp_path) as asked:
        ann = await asked.with_rights("ann", "Topic:t Pub")
        await warm(ann)
        again = asked.user("ann")
        looked.clear()
        for _ in range(3):
            assert (await again.send("t")).code == 0
        assert looked == ["ann"]


async def test_transactions_are_asked_each_time(tmp_path: Path, looked: list[str]) -> None:
    """A half message and its END, whatever has passed."""
    async with asking_broker(tmp_path) as asked:
        root = asked.root
        await warm(root)
        half = await root.send(
            "t", b"h", f=4, i="UNIQ_KEY\x01H1\x02TRAN_MSG\x01true\x02PGROUP\x01p\x02"
        )
        assert half.code == 0
        looked.clear()
        end = {
            "producerGroup": "p", "tranStateTableOffset": half.ext["queueOffset"],
            "commitLogOffset": int(half.ext["msgId"][16:], 16), "commitOrRollback": 8,
            "msgId": "H1", "transactionId": half.ext["transactionId"], "topic": "t",
        }  # fmt: skip
        assert (await root.ask(Code.END_TRANSACTION, end)).code == 0
        assert looked == [ROOT]
        assert asked.live.broker.store.queue("t", 0).max_offset == 3


async def test_nothing_is_guarded_where_nobody_is_asked(tmp_path: Path) -> None:
    """Connections are those of any broker then, guarded ones where somebody is asked."""
    async with live_broker(tmp_path / "off") as live:
        assert live.broker.context.front.connect is BrokerConnection
        assert live.broker.context.records is None
        assert not live.broker.context.writing.queues.excerpts
    async with asking_broker(tmp_path / "on") as asked:
        front = asked.live.broker.context.front
        made = front.connect(front.traffic, None)  # type: ignore[arg-type]
        assert isinstance(made, AskingConnection)
        assert made.traffic.halves is None


async def test_huge_names_are_not_remembered(tmp_path: Path) -> None:
    """Who may consume everything could fill the memory with what is not there."""
    async with asking_broker(tmp_path) as asked:
        ann = await asked.with_rights("ann", "Topic:* Sub", "Group:* Sub")
        for topic, group in (("t" * 60_000, "g"), ("t", "g" * 60_000), ("t", "g")):
            await ann.pull(topic, group)
        (access,) = (each for each in asked.live.broker.context.rooms if isinstance(each, Access))
        kept = [excerpt._pulls for excerpt in access._excerpts.values()]
        assert {("t", "g")} in kept
        assert all(len(name) <= 255 for pulls in kept for pair in pulls for name in pair)
