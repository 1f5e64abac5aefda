"""A broker that takes over the users of RocketMQ 4.x: which files, how often, and who passes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.features.access import ASKED, ROOT, SECRET, asking_broker, signed
from support.servers.live_broker import live_broker

from aerobee.broker.features.access import migration
from aerobee.broker.features.access.plain_acl import PlainAclError
from aerobee.remoting.bodies import UserInfo
from aerobee.remoting.codes import RequestCode as Code
from aerobee.remoting.codes import ResponseCode

DENIED = ResponseCode.NO_PERMISSION
ANN = f"- accessKey: ann\n  secretKey: {SECRET}\n"
PUB = "  topicPerms: [t=PUB]\n"


def folder(path: Path, files: Mapping[str, str]) -> dict[str, Any]:
    """Lay out a folder of RocketMQ 4.x; return the settings that read it."""
    conf = path / "conf"
    for name, accounts in files.items():
        file = conf / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(accounts)
        file.chmod(0o600)
    return {"migrate_auth_from_v1_enabled": True, "plain_acl_path": conf}


async def test_users_come_once_and_stay_as_they_were_made_since(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """From the file and from all of its folder; what an operator changes afterwards counts."""
    caplog.set_level("INFO")
    settings = folder(
        tmp_path,
        {
            "plain_acl.yml": f"accounts:\n{ANN}{PUB}",
            "acl/team/bob.yml": f"accounts:\n- accessKey: bob\n  secretKey: {SECRET}\n",
            "acl/same.yaml": f"accounts:\n{ANN}{PUB}",
            "acl/notes.txt": "nothing of it",
        },
    )
    async with asking_broker(tmp_path, **settings) as asked:
        assert (await asked.user("ann").send("t")).code == 0
        assert (await asked.user("ann").send("u")).code == DENIED
        assert (await asked.user("bob").send("t")).code == DENIED
        await asked.root.allow("bob", "Topic:t", "Pub")
        changed = {"username": "ann"}
        update = await asked.root.ask(Code.AUTH_UPDATE_USER, changed, UserInfo(password="new"))
        assert update.code == 0
    async with asking_broker(tmp_path, **settings) as asked:
        assert (await asked.user("ann").send("t")).code == DENIED
        assert (await asked.user("ann", "new").send("t")).code == 0
        assert (await asked.user("bob").send("t")).code == 0
    async with asking_broker(tmp_path) as asked:
        assert (await asked.user("bob").send("t")).code == 0
    told = [text for text in caplog.messages if text.startswith("plain_acl_migrated")]
    assert [text.split(" white")[0] for text in told] == [
        "plain_acl_migrated files=3 users=2 as_they_are=0",
        "plain_acl_migrated files=3 users=0 as_they_are=2",
    ]
    assert SECRET not in caplog.text


async def test_white_lists_pass_unasked_and_change_no_users(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As with 4.x, over restarts, and each start says so; nobody makes himself a user."""
    text = "globalWhiteRemoteAddresses: [127.0.0.1]\naccounts:\n" + ANN
    settings = folder(tmp_path, {"plain_acl.yml": text})
    user = UserInfo(password="x")
    for more in (settings, {}):
        caplog.clear()
        async with asking_broker(tmp_path, **more) as asked:
            assert (await asked.live.ask(Code.GET_BROKER_RUNTIME_INFO)).code == 0
            assert (await asked.user("ann", "wrong").send("t")).code == 0
            assert (await asked.user("ann", "wrong").pull("t", "g")).code == 0
            assert (await asked.live.ask(Code.VIEW_MESSAGE_BY_ID, {"offset": 0})).code == 0
            for code in range(Code.AUTH_CREATE_USER, Code.AUTH_LIST_ACL + 1):
                assert (await asked.live.ask(code, {"username": "bob"}, user)).code == DENIED
            assert (await asked.root.send("t")).code == 0
        assert "access_not_asked networks=127.0.0.1/32 users=none" in caplog.text


async def test_an_account_passes_from_its_own_addresses(tmp_path: Path) -> None:
    """Who says that he is ann, and nobody else; with the user it is gone."""
    text = f"accounts:\n{ANN}  whiteRemoteAddress: 127.0.0.*\n"
    settings = folder(tmp_path, {"plain_acl.yml": text})
    async with asking_broker(tmp_path, **settings) as asked:
        assert (await asked.user("ann", "wrong").send("t")).code == 0
        assert (await asked.user("bob", "wrong").send("t")).code == DENIED
        assert (await asked.live.ask(Code.GET_BROKER_RUNTIME_INFO)).code == DENIED
    async with asking_broker(tmp_path) as asked:
        assert (await asked.user("ann", "wrong").send("t")).code == 0
        off, on = UserInfo(user_status="disable"), UserInfo(user_status="enable")
        for info, code in ((off, DENIED), (on, 0)):
            await asked.root.ask(Code.AUTH_UPDATE_USER, {"username": "ann"}, info)
            assert (await asked.user("ann", "wrong").send("t")).code == code
        assert (await asked.root.ask(Code.AUTH_DELETE_USER, {"username": "ann"})).code == 0
        assert (await asked.user("ann", "wrong").send("t")).code == DENIED
    kept = json.loads((tmp_path / "store" / "config" / "users.json").read_text())
    assert "whiteRemoteAddresses" not in kept


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "there is no "),
        ({"plain_acl.yml": "accounts:\n- accessKey: ann"}, "password can not be blank"),
        ({"plain_acl.yml": f"accounts:\n{ANN}{PUB}", "acl/x.yml": f"accounts:\n{ANN}"},
         "remove one of them"),
        ({"plain_acl.yml": "#" * (migration.FILE_BYTES_MAX + 1)}, "bytes"),
    ],
)  # fmt: skip
async def test_a_broker_does_not_start_with_half_of_the_users(
    tmp_path: Path, files: dict[str, str], told: str
) -> None:
    """And has made none of them."""
    settings = folder(tmp_path, files)
    with pytest.raises(PlainAclError, match=told):
        async with live_broker(tmp_path, **(ASKED | settings)):
            pass
    assert not (tmp_path / "store" / "config" / "users.json").exists()


async def test_the_folder_is_that_of_rocketmq(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ROCKETMQ_HOME says where it is, unless a setting does; a file may be named, too."""
    folder(tmp_path, {"plain_acl.yml": f"accounts:\n{ANN}{PUB}"})
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    with pytest.raises(PlainAclError, match="ROCKETMQ_HOME is not set"):
        async with live_broker(tmp_path / "a", **ASKED, migrate_auth_from_v1_enabled=True):
            pass
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    async with asking_broker(tmp_path / "b", migrate_auth_from_v1_enabled=True) as asked:
        assert (await asked.user("ann").send("t")).code == 0
    named = tmp_path / "conf" / "plain_acl.yml"
    named.chmod(0o644)
    async with asking_broker(
        tmp_path / "c", migrate_auth_from_v1_enabled=True, plain_acl_path=named
    ) as asked:
        assert (await asked.user("ann").send("t")).code == 0
        for body in (b"plainAclPath=/x", b"migrateAuthFromV1Enabled=false"):
            ext = signed(ROOT, {}, body)
            assert (await asked.live.ask(Code.UPDATE_BROKER_CONFIG, ext, body)).code == DENIED
