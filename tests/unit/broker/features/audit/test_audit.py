"""A broker that notes who changed what."""

import stat
from pathlib import Path

import pytest
from support.features.access import ASKED, asking_broker, signed
from support.features.audit import lines
from support.servers.live_broker import live_broker

from aerobee.broker.features.audit.feature import Audit
from aerobee.remoting.bodies import UserInfo
from aerobee.remoting.codes import RequestCode as Code
from aerobee.remoting.codes import ResponseCode

DENIED = ResponseCode.NO_PERMISSION


async def test_who_changed_what_is_noted(tmp_path: Path) -> None:
    """Topics, settings, users, refusals: with name, address, what was asked and what came of it."""
    file = tmp_path / "audit" / "audit.log"
    async with asking_broker(tmp_path, audit_file=file) as asked:
        root = asked.root
        topic = {"topic": "orders", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6,
                 "topicFilterType": "SINGLE_TAG", "defaultTopic": "TBW102"}  # fmt: skip
        assert (await root.ask(Code.UPDATE_AND_CREATE_TOPIC, topic)).code == 0
        body = b"regionId=here\ntls.server.keyPassword=hidden one"
        await root.ask(Code.UPDATE_BROKER_CONFIG, body=body)
        user = UserInfo(password="hidden two", user_type="Normal")
        assert (await root.ask(Code.AUTH_CREATE_USER, {"username": "bob"}, user)).code == 0
        assert (await root.ask(Code.AUTH_CREATE_USER, {"username": "bob"}, user)).code == DENIED
        assert (await asked.user("bob", "guessed").ask(Code.DELETE_TOPIC_IN_BROKER, topic)).code
        assert (await asked.live.ask(Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g"})).code
        await root.send("orders")
        assert (await root.ask(Code.GET_BROKER_CONFIG)).code == 0
        assert (await root.ask(Code.UPDATE_CONSUMER_OFFSET)).code != 0
    found = lines(file)
    assert [(each["action"], each["resource"], each["user"], each["authenticated"],
             each["result"]) for each in found] == [
        ("UPDATE_AND_CREATE_TOPIC", "Topic:orders", "root", True, 0),
        ("UPDATE_BROKER_CONFIG", "Cluster", "root", True, found[1]["result"]),
        ("AUTH_CREATE_USER", "User:bob", "root", True, 0),
        ("AUTH_CREATE_USER", "User:bob", "root", True, DENIED),
        ("DELETE_TOPIC_IN_BROKER", "Topic:orders", "bob", True, DENIED),
        ("DELETE_SUBSCRIPTIONGROUP", "Group:g", "", False, DENIED),
    ]  # fmt: skip
    first = found[0]
    assert (first["server"], first["code"], first["fields"]["perm"]) == ("broker-a", 17, "6")
    assert first["address"].startswith("127.0.0.1:")
    assert found[1]["body"] == {"regionId": "here", "tls.server.keyPassword": "******"}
    assert found[3]["remark"] == "The user is existed"
    assert found[4]["remark"] == "check signature failed."
    text = file.read_text()
    assert "hidden" not in text and "Signature" not in text and "a secret" not in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_a_broker_that_asks_nobody_notes_who_says_he_is_who(tmp_path: Path) -> None:
    """A name that is not proved; and without a file nothing of the room is there."""
    file = tmp_path / "audit.log"
    file.write_text("")
    file.chmod(0o644)
    async with live_broker(tmp_path, audit_file=file) as live:
        reply = await live.ask(Code.DELETE_TOPIC_IN_BROKER, signed("ann", {"topic": "t"}))
        assert reply.code == 0
        room = next(each for each in live.broker.rooms if isinstance(each, Audit))
        samples = {sample.name: sample.value for sample in room.samples()}
    assert samples == {"aerobee_audit_lines_total": 1, "aerobee_audit_lines_lost_total": 0}
    assert set(samples) == set(room.metric_help)
    (line,) = lines(file)
    assert (line["user"], line["authenticated"], line["result"]) == ("ann", False, 0)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_a_file_that_cannot_be_had_keeps_a_broker_from_starting(tmp_path: Path) -> None:
    """Who asked for a log would find out when it is wanted."""
    (tmp_path / "x").write_text("a file")
    with pytest.raises(OSError):
        async with live_broker(tmp_path, **ASKED, audit_file=tmp_path / "x" / "audit.log"):
            pass
