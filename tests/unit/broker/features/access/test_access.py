"""A broker that asks: users and policies by its codes, who is refused, and what is kept."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from support.features.access import ASKED, ROOT, SECRET, asking_broker, signed
from support.raw_peer import RawPeer
from support.servers.live_broker import fill, live_broker
from support.waiting import until

from aerobee.broker.features.access.feature import Access
from aerobee.remoting.bodies import AclInfo, HeartbeatData, ProducerData, UserInfo
from aerobee.remoting.codes import RequestCode as Code
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.config.kept_files import KeptFileDamaged
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.record import decode_record, iter_records
from aerobee.remoting.net.access.guesses import BURST

DENIED = ResponseCode.NO_PERMISSION
METADATA = "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider"


def loaded(reply: Command) -> Any:
    """What a reply says."""
    assert reply.code == 0, reply.remark
    return json.loads(bytes(reply.body)) if reply.body else None


async def test_strangers_are_refused(tmp_path: Path) -> None:
    """Whatever they ask, also by a one-way request, and also what is not served."""
    async with asking_broker(tmp_path) as asked:
        for code in (Code.HEART_BEAT, Code.GET_BROKER_CONFIG, Code.AUTH_LIST_USER, 99_999):
            reply = await asked.live.ask(code)
            assert (reply.code, reply.remark) == (DENIED, "username cannot be null.")
        reply = await asked.user(ROOT, "wrong").send("t")
        assert (reply.code, reply.remark) == (DENIED, "check signature failed.")
        assert (await asked.root.send("t")).code == 0
        assert (await asked.root.pull("t", "g")).code == 0
        assert not asked.live.broker.context.tables.offsets.committed("g", "t", 0)
        shown = (await asked.root.ask(Code.GET_BROKER_CONFIG)).body
        assert b"authenticationEnabled=true" in shown
        assert SECRET.encode() not in shown


async def test_mqadmins_users(tmp_path: Path) -> None:
    """3001 to 3005, as its commands ask and print them."""
    async with asking_broker(tmp_path) as asked:
        root = asked.root
        await root.make_user("ann")
        again = await root.ask(Code.AUTH_CREATE_USER, {"username": "ann"}, UserInfo(password="x"))
        assert (again.code, again.remark) == (DENIED, "The user is existed")
        blank = await root.ask(Code.AUTH_GET_USER, {"username": " "})
        assert (blank.code, blank.remark) == (
            ResponseCode.INVALID_PARAMETER, "The username is blank",
        )  # fmt: skip
        ann = {"username": "ann", "password": SECRET, "userType": "Normal", "userStatus": "enable"}
        assert loaded(await root.ask(Code.AUTH_GET_USER, {"username": "ann"})) == ann
        assert loaded(await root.ask(Code.AUTH_GET_USER, {"username": "bob"})) is None
        assert loaded(await root.ask(Code.AUTH_LIST_USER, {"filter": "nn"})) == [ann]
        assert len(loaded(await root.ask(Code.AUTH_LIST_USER))) == 2
        assert loaded(await root.ask(Code.AUTH_LIST_USER, {"filter": "x"})) is None
        off = UserInfo(user_status="disable")
        loaded(await root.ask(Code.AUTH_UPDATE_USER, {"username": "ann"}, off))
        assert (await asked.user("ann").send("t")).remark == "User:ann is disabled."
        loaded(await root.ask(Code.AUTH_DELETE_USER, {"username": "ann"}))
        loaded(await root.ask(Code.AUTH_DELETE_USER, {"username": "ann"}))
        assert (await asked.user("ann").send("t")).remark == "check signature failed."


async def test_mqadmins_policies(tmp_path: Path) -> None:
    """3006 to 3010."""
    async with asking_broker(tmp_path) as asked:
        root = asked.root
        await asked.with_rights("ann", "Topic:t Pub Sub", "Group:* Sub")
        info = loaded(await root.ask(Code.AUTH_GET_ACL, {"subject": "User:ann"}))
        entry = {"resource": "Topic:t", "actions": ["Pub", "Sub"], "decision": "Allow"}
        group = {"resource": "Group:*", "actions": ["Sub"], "decision": "Allow"}
        policies = [{"policyType": "Custom", "entries": [entry, group]}]
        assert info == {"subject": "User:ann", "policies": policies}
        assert loaded(await root.ask(Code.AUTH_LIST_ACL, {"subjectFilter": "ann"})) == [info]
        assert loaded(await root.ask(Code.AUTH_LIST_ACL, {"resourceFilter": "none"})) is None
        none = await root.ask(Code.AUTH_UPDATE_ACL, {"subject": "User:ann"})
        assert (none.code, none.remark) == (ResponseCode.SYSTEM_ERROR, "The body of acl is null")
        empty = await root.ask(Code.AUTH_UPDATE_ACL, {"subject": "User:ann"}, AclInfo())
        assert (empty.code, empty.remark) == (DENIED, "The policies is empty.")
        gone = {"subject": "User:ann", "policyType": "Custom", "resource": "Topic:t"}
        loaded(await root.ask(Code.AUTH_DELETE_ACL, gone))
        info = loaded(await root.ask(Code.AUTH_GET_ACL, {"subject": "User:ann"}))
        assert info["policies"][0]["entries"] == [group]
        loaded(await root.ask(Code.AUTH_DELETE_ACL, {"subject": "User:ann"}))
        assert loaded(await root.ask(Code.AUTH_GET_ACL, {"subject": "User:ann"})) is None


async def test_only_super_users_make_super_users(tmp_path: Path) -> None:
    """Who may change the cluster may make others, sees no password, and touches no super user."""
    async with asking_broker(tmp_path) as asked:
        boss = await asked.with_rights("boss", "Cluster:* Update Get")
        await boss.make_user("ann")
        for code, word in ((Code.AUTH_CREATE_USER, "create"), (Code.AUTH_UPDATE_USER, "update")):
            info = UserInfo(password="x", user_type="Super")
            reply = await boss.ask(code, {"username": "bob"}, info)
            assert (reply.code, reply.remark) == (
                ResponseCode.SYSTEM_ERROR, f"The super user can only be {word} by super user",
            )  # fmt: skip
        for reply in (
            await boss.ask(Code.AUTH_UPDATE_USER, {"username": ROOT}, UserInfo(password="x")),
            await boss.ask(Code.AUTH_DELETE_USER, {"username": ROOT}),
        ):
            text = "The super user can only be update by super user"
            assert (reply.code, reply.remark) == (DENIED, text)
        assert "password" not in loaded(await boss.ask(Code.AUTH_GET_USER, {"username": "ann"}))
        assert SECRET.encode() not in (await boss.ask(Code.AUTH_LIST_USER)).body
        ann = await asked.user("ann").ask(Code.AUTH_LIST_USER)
        assert ann.code == DENIED


async def test_a_record_decides_by_its_own_topic(tmp_path: Path) -> None:
    """33, 36 and 309: whatever topic the request names."""
    async with asking_broker(tmp_path) as asked:
        await asked.root.send("hidden", b"secret of others")
        await asked.root.send("open", b"for all")
        (other,) = iter_records((await asked.root.pull("open", "g")).body)
        ann = await asked.with_rights("ann", "Topic:open Get Sub", "Group:g Sub")
        found = await ann.ask(Code.VIEW_MESSAGE_BY_ID, {"offset": other.position})
        assert decode_record(found.body).body == b"for all"
        for code, fields in (
            (Code.VIEW_MESSAGE_BY_ID, {"offset": 0, "topic": "open"}),
            (Code.CONSUMER_SEND_MSG_BACK, {"offset": 0, "group": "g", "delayLevel": 0,
                                           "originTopic": "open"}),
            (Code.CONSUME_MESSAGE_DIRECTLY, {"consumerGroup": "g", "topic": "open", "clientId": "c",
                                             "msgId": "7F00000100002A9F0000000000000000"}),
        ):  # fmt: skip
            reply = await ann.ask(code, fields)
            assert reply.code == DENIED, code
            assert "Topic:hidden" in (reply.remark or "")
        assert not (await ann.ask(Code.VIEW_MESSAGE_BY_ID, {"offset": 0, "topic": "open"})).body


async def test_a_delayed_message_is_of_the_topic_that_it_waits_for(tmp_path: Path) -> None:
    """Its producer may look at it, who may not look at what all others delay."""
    async with asking_broker(tmp_path) as asked:
        waits = "UNIQ_KEY\x01A1\x02DELAY\x0118\x02"
        await asked.root.send("mine", i=waits)
        await asked.root.send("other", i=waits.replace("A1", "A2"))
        ann = await asked.with_rights("ann", "Topic:mine Get")
        found = await ann.ask(Code.VIEW_MESSAGE_BY_ID, {"offset": 0})
        assert found.code == 0
        refused = await ann.ask(Code.VIEW_MESSAGE_BY_ID, {"offset": len(found.body)})
        assert "Topic:other" in (refused.remark or "")


async def test_users_and_policies_are_kept_for_their_owner_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Over a restart; a changed setting changes no user that is there; files stay closed."""
    config = tmp_path / "store" / "config"
    async with asking_broker(tmp_path) as asked:
        await asked.with_rights("ann", "Topic:t Pub")
        await asked.root.allow("ann", "Topic:u", "Pub")
    files = sorted([*config.glob("users.json*"), *config.glob("acls.json*")])
    assert len(files) == 4
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    files[-1].chmod(0o644)
    other = json.dumps({"username": ROOT, "password": "another"})
    async with asking_broker(tmp_path, init_authentication_user=other) as asked:
        assert (await asked.user("ann").send("t")).code == 0
        assert (await asked.root.send("t")).code == 0
    assert f"secrets_were_readable file={files[-1]}" in caplog.text
    assert stat.S_IMODE(files[-1].stat().st_mode) == 0o600
    assert SECRET not in caplog.text


async def test_a_damaged_file_keeps_a_broker_from_starting(tmp_path: Path) -> None:
    """It would refuse everybody, or forget what was denied to whom."""
    async with asking_broker(tmp_path):
        pass
    config = tmp_path / "store" / "config"
    for file in config.glob("users.json*"):
        file.write_text('{"users":[{"username":"root"}]}')
    with pytest.raises(KeptFileDamaged, match=r"users\.json"):
        async with live_broker(tmp_path, **ASKED):
            pass


@pytest.mark.parametrize(
    ("name", "sound", "flipped"),
    [
        ("users.json", '"users":', '"usezs":'),
        ("users.json", '"userStatus":', '"uservtatus":'),
        ("acls.json", '"sourceIps":', '"sourceIts":'),
        ("acls.json", '"policies":', '"po|icies":'),
    ],
)
async def test_a_key_that_nobody_knows_keeps_a_broker_from_starting(
    tmp_path: Path, name: str, sound: str, flipped: str
) -> None:
    """Passed over, it would enable a user, or have an entry hold wherever its user is."""
    folder = tmp_path / "store" / "config"
    folder.mkdir(parents=True)
    user = '{"users":[{"username":"ann","password":"x","userStatus":"disable"}]}'
    entries = '[{"resource":"Topic:t","actions":["Pub"],"sourceIps":["1.1.1.1"],"decision":"Deny"}]'
    acl = '{"acls":[{"subject":"User:ann","policies":[{"entries":' + entries + "}]}]}"
    texts = {"users.json": user, "acls.json": acl}
    for each, text in texts.items():
        (folder / each).write_text(text)
    async with asking_broker(tmp_path) as asked:
        assert (await asked.root.ask(Code.AUTH_GET_ACL, {"subject": "User:ann"})).code == 0
    (folder / name).with_suffix(".json.bak").unlink(missing_ok=True)
    (folder / name).write_text(texts[name].replace(sound, flipped))
    with pytest.raises(KeptFileDamaged, match=flipped[1:-2].replace("|", ".")):
        async with asking_broker(tmp_path):
            pass


async def test_what_cannot_be_kept_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The change is answered by what the disk says, and written when it takes it again."""
    async with asking_broker(tmp_path) as asked:

        def full(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr("aerobee.broker.tables.table_file.replace_file", full)
            reply = await asked.root.ask(
                Code.AUTH_CREATE_USER, {"username": "ann"}, UserInfo(password="x")
            )
            assert reply.code == ResponseCode.SYSTEM_ERROR
            assert "No space left" in (reply.remark or "")
        loaded(
            await asked.root.ask(Code.AUTH_CREATE_USER, {"username": "bob"}, UserInfo(password="x"))
        )
    kept = json.loads((tmp_path / "store" / "config" / "users.json").read_text())
    assert [user["username"] for user in kept["users"]] == [ROOT, "ann", "bob"]


async def test_users_can_be_made_before_anybody_is_asked(tmp_path: Path) -> None:
    """From the machine itself; others are told from where."""
    async with live_broker(tmp_path, authentication_metadata_provider=METADATA) as live:
        await fill(live, b"x")
        user = UserInfo(password=SECRET, user_type="Super")
        assert loaded(await live.ask(Code.AUTH_CREATE_USER, {"username": ROOT}, user)) is None
        shown = loaded(await live.ask(Code.AUTH_GET_USER, {"username": ROOT}))
        assert shown == {"username": ROOT, "userType": "Super", "userStatus": "enable"}
    async with live_broker(
        tmp_path, authentication_metadata_provider=METADATA, admin_allowed_networks="none"
    ) as live:
        reply = await live.ask(Code.AUTH_DELETE_USER, {"username": ROOT})
        assert reply.code == DENIED
        assert "adminAllowedNetworks" in (reply.remark or "")
    async with asking_broker(tmp_path) as asked:
        assert (await asked.root.send("t")).code == 0


async def test_the_keys_of_access_cannot_be_changed_from_afar(tmp_path: Path) -> None:
    """Not by a super user either, as for what CVE-2023-33246 abused."""
    async with asking_broker(tmp_path) as asked:
        for text in (b"authenticationEnabled=false", b"AUTHORIZATION_whitelist=25"):
            reply = await asked.root.ask(Code.UPDATE_BROKER_CONFIG, body=text)
            assert (reply.code, reply.remark) == (DENIED, "Can not update config in black list.")


async def test_whitelisted_codes_are_asked_nothing(tmp_path: Path) -> None:
    """A heartbeat of a producer, as RocketMQ's operators allow it."""
    async with asking_broker(
        tmp_path, authentication_whitelist="34", authorization_whitelist="34"
    ) as asked:
        beat = HeartbeatData(client_id="c", producer_data_set=[ProducerData(group_name="p")])
        assert (await asked.live.ask(Code.HEART_BEAT, body=beat)).code == 0
        assert (await asked.live.ask(Code.GET_BROKER_RUNTIME_INFO)).code == DENIED


async def test_who_guesses_waits_and_holds_up_nobody(tmp_path: Path) -> None:
    """Past a burst a connection is not read until its answer has left; others are served."""
    async with asking_broker(tmp_path) as asked:
        async with await RawPeer.connect(asked.live.broker.port) as peer:
            wrong = signed(ROOT, {}, secret="guess")
            for number in range(BURST + 1):
                await peer.send(encode_frame(Command(Code.GET_BROKER_CONFIG, wrong, opaque=number)))
            right = signed(ROOT, {})
            await peer.send(encode_frame(Command(Code.GET_BROKER_RUNTIME_INFO, right, opaque=99)))
            answers = [await peer.read() for _ in range(BURST)]
            assert {answer.code for answer in answers} == {DENIED}
            assert (await asked.root.send("t")).code == 0
            assert [(await peer.read()).opaque for _ in range(2)] == [BURST, 99]
            await peer.send(encode_frame(Command(Code.GET_BROKER_CONFIG, wrong, opaque=1)))
        feature = next(each for each in asked.live.broker.rooms if isinstance(each, Access))
        await until(lambda: feature.guard.refused == BURST + 2, what="the last is counted")


async def test_refusals_and_users_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In samples and in the log, with who and why; no secret is among it."""
    caplog.set_level("INFO")
    async with asking_broker(tmp_path) as asked:
        ann = await asked.with_rights("ann")
        assert (await ann.send("t")).code == DENIED
        feature = next(each for each in asked.live.broker.rooms if isinstance(each, Access))
        samples = {sample.name: sample.value for sample in feature.samples()}
    assert samples == {"aerobee_access_refused_total": 1, "aerobee_access_users": 2}
    assert set(samples) == set(feature.metric_help)
    assert "User:ann has no permission to access Topic:t from 127.0.0.1, no matched" in caplog.text
    assert "access_changed by='root' remote=127.0.0.1:" in caplog.text
    assert SECRET not in caplog.text
