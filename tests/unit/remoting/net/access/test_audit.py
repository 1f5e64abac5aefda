"""What the audit log of a server says, and what becomes of it when it is bad weather."""

import json
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.asker import BODY, BROKER, connect
from support.features.access import ROOT, signed
from support.features.audit import lines

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.namesrv.app import NameServer
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.codes import RequestCode as Code
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.errors import RequestError
from aerobee.remoting.net.access.audit import REFUSED_PER_MINUTE, AuditLog, claimed
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.routes import NoHeader, Reply, Request, Routes

DENIED = ResponseCode.NO_PERMISSION


async def test_a_nameserver_has_one_too(tmp_path: Path) -> None:
    """Keys, write permissions, its settings, and brokers that are thrown out."""
    file = tmp_path / "audit.log"
    inner = json.dumps({"accessKey": ROOT, "secretKey": "a secret"})
    server = NameServer(
        NamesrvSettings(
            bind_address="127.0.0.1", listen_port=0, kv_config_path=tmp_path / "kv.json",
            audit_file=file, authentication_enabled=True, authorization_enabled=True,
            inner_client_authentication_credentials=inner,
        )
    )  # fmt: skip
    await server.start()
    try:
        async with await connect(server) as asker:
            kv = {"namespace": "n", "key": "k", "value": "v"}
            assert (await asker.ask(Code.PUT_KV_CONFIG, signed(ROOT, kv))).code == 0
            await asker.ask(Code.REGISTER_BROKER, signed(ROOT, BROKER, BODY), BODY)
            assert (await asker.ask(Code.UNREGISTER_BROKER, BROKER)).code == DENIED
            off = b"enableTopicList=false"
            await asker.ask(Code.UPDATE_NAMESRV_CONFIG, signed(ROOT, {}, off), off)
    finally:
        await server.stop()
    assert [(each["action"], each["resource"], each["authenticated"]) for each in lines(file)] == [
        ("PUT_KV_CONFIG", "Kv:n/k", True),
        ("UNREGISTER_BROKER", "Broker:broker-a", False),
        ("UPDATE_NAMESRV_CONFIG", "Cluster", True),
    ]
    assert {each["server"] for each in lines(file)} == {"namesrv"}


def audit(folder: Path, **settings: Any) -> AuditLog:
    """A log in a folder."""
    return AuditLog(BrokerSettings(audit_file=folder / "a.log", **settings), "b")


def note(log: AuditLog, command: Command, outcome: Reply | Exception) -> None:
    """Have a change served, and noted."""
    family: Routes[None] = Routes("test")

    @family.on(command.code)
    def serve(_: None, request: Request[NoHeader]) -> Reply:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    (noted,) = log.around([family])
    connection = Connection(lambda *_: None)
    with suppress(ZeroDivisionError):
        noted.table[command.code][1](None, Request(NoHeader(), command, connection))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"\xff\xfe", {"bytes": 2}),
        (b"x" * 20_000, {"bytes": 20_000}),
        (b"[" * 9000, {"bytes": 9000}),
        (b'{"a":' * 20 + b"1" + b"}" * 20, None),
        (json.dumps({"t": "x" * 900}).encode(), {"t": "x" * 500 + "... (900 characters)"}),
        (b'{"nested":[{"secretKey":"s3cr"}],"credentials":{"x":"s3cr"}}',
         {"nested": [{"secretKey": "******"}], "credentials": "******"}),
        (b'"a\\nb"', "a\nb"),
    ],
)  # fmt: skip
def test_what_is_asked_for_is_bounded_and_hides_secrets(
    tmp_path: Path, body: bytes, told: Any
) -> None:
    """Whatever a peer sends, it is one line of JSON."""
    log = audit(tmp_path)
    note(
        log,
        Command(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {"x": "\u2028\ud800\n"}, body),
        Reply(),
    )
    log.close()
    (line,) = lines(tmp_path / "a.log")
    assert told is None or line["body"] == told
    assert (tmp_path / "a.log").read_text().count("\n") == 1
    assert "s3cr" not in (tmp_path / "a.log").read_text()


@pytest.mark.parametrize(
    ("code", "ext", "body", "resource"),
    [
        (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {"groupName": "x"}, b'{"groupName":"g"}',
         "Group:g"),
        (Code.AUTH_CREATE_ACL, {"subject": "User:x"}, b'{"subject":"User:ann"}', "User:ann"),
        (Code.AUTH_CREATE_ACL, {"subject": "User:x"}, b'{"policies":[]}', "User:x"),
        (Code.AUTH_CREATE_ACL, {"subject": "User:x", "body_subject": "User:y"}, b'{"policies":[]}',
         "User:x"),
        (Code.AUTH_CREATE_ACL, {"subject": "User:x"}, b'{"subject":"User:ann",' + b" " * 20_000
         + b'"policies":[]}', "User:ann"),
        (Code.AUTH_CREATE_ACL, {"subject": "User:x"}, b'{"subject":"User:ann",1:2}', "User:ann"),
        (Code.AUTH_CREATE_ACL, {"subject": "User:x"}, b"no JSON", "?"),
        (Code.AUTH_DELETE_USER, {"username": "x"}, b'{"username":"ann"}', "User:x"),
        (Code.DELETE_TOPIC_IN_BROKER, {}, b"", "Topic:?"),
    ],
)  # fmt: skip
def test_the_resource_is_what_is_changed(
    tmp_path: Path, code: int, ext: dict[str, str], body: bytes, resource: str
) -> None:
    """What its processor looks at, whatever else a request names."""
    log = audit(tmp_path)
    note(log, Command(code, ext, body), Reply())
    log.close()
    assert lines(tmp_path / "a.log")[0]["resource"] == resource


def test_an_error_that_nobody_foresaw_is_noted_too(tmp_path: Path) -> None:
    """As a change that may have been made in part."""
    log = audit(tmp_path)
    note(log, Command(Code.CLEAN_UNUSED_TOPIC), ZeroDivisionError())
    log.close()
    (line,) = lines(tmp_path / "a.log")
    assert (line["result"], line["remark"]) == (ResponseCode.SYSTEM_ERROR, "ZeroDivisionError")


def test_files_are_bounded(tmp_path: Path) -> None:
    """The newest changes are there, whole; each file is for its owner alone."""
    log = audit(tmp_path, audit_file_bytes_max=64 << 10, audit_files_max=3)
    for number in range(2000):
        note(log, Command(Code.DELETE_TOPIC_IN_BROKER, {"topic": f"t{number}"}), Reply())
    log.close()
    files = list(tmp_path.iterdir())
    assert len(files) == 3
    assert all(file.stat().st_size <= 64 << 10 for file in files)
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert lines(tmp_path / "a.log")[-1]["resource"] == "Topic:t1999"


def test_a_full_disk_stops_nobody_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines are lost and counted; the next one that is written is preceded by how many."""
    log = audit(tmp_path)
    command = Command(Code.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
    stream = log._file._file.stream  # the disk below it

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(stream, "write", full, raising=False)
        note(log, command, Reply())
        while not log.lost:
            pass
    note(log, command, Reply())
    log.close()
    told, after = sorted(lines(tmp_path / "a.log"), key=lambda line: line["action"], reverse=True)
    assert (told["action"], told["count"], told["server"]) == ("LINES_LOST", 1, "b")
    assert after["resource"] == "Topic:t"


def test_a_long_body_of_who_is_refused_is_not_read(tmp_path: Path) -> None:
    """He may be anybody: reading it takes time, and what its header says is not what it says."""
    log, body = audit(tmp_path), b'{"subject":"User:ann",' + b" " * 20_000 + b'"policies":[]}'
    refused = RequestError(DENIED, "no")
    command = Command(Code.AUTH_CREATE_ACL, {"subject": "User:x"}, body)
    log.refused(Connection(lambda *_: None), command, refused)
    log.close()
    (line,) = lines(tmp_path / "a.log")
    assert (line["resource"], line["body"]) == ("?", {"bytes": len(body)})


def test_who_is_refused_again_and_again_pushes_nothing_out(tmp_path: Path) -> None:
    """A bounded number each minute, and then how many more there were."""
    now_s = [0.0]
    log = AuditLog(BrokerSettings(audit_file=tmp_path / "a.log"), "b", lambda: now_s[0])
    connection, error = Connection(lambda *_: None), RequestError(DENIED, "no")
    for _ in range(1000):
        log.refused(connection, Command(Code.DELETE_TOPIC_IN_BROKER, {"topic": "t"}), error)
        log.refused(connection, Command(Code.SEND_MESSAGE_V2), error)
    now_s[0] = 61.0
    log.refused(connection, Command(Code.DELETE_TOPIC_IN_BROKER, {"topic": "u"}), error)
    log.close()
    found = lines(tmp_path / "a.log")
    assert len(found) == REFUSED_PER_MINUTE + 2
    assert (found[-2]["action"], found[-2]["more"]) == ("REFUSED", 1000 - REFUSED_PER_MINUTE)
    assert found[-1]["resource"] == "Topic:u"


def test_nobody_is_who_says_nothing() -> None:
    """A request without a name."""
    assert claimed(Connection(lambda *_: None), Command(17)) == ("", False)
