"""`aerobee user` and `aerobee acl` over two brokers that ask who is there."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.features.access import ASKED, ROOT, SECRET
from support.servers.commands import Commands

from aerobee.cli.rocketmq.mqadmin import mqadmin
from aerobee.testing import ClusterThread


@pytest.fixture(scope="module")
def asking() -> Iterator[ClusterThread]:
    """Two brokers, each with one super user."""
    with ClusterThread(brokers=2, broker_settings=ASKED) as running:
        yield running


@pytest.fixture
def commands(asking: ClusterThread) -> Commands:
    """Commands of the super user."""
    return of_user(asking, ROOT)


def of_user(asking: ClusterThread, name: str, secret: str = SECRET) -> Commands:
    """Return commands that a user signs."""
    environ = {"AEROBEE_ACCESS_KEY": name, "AEROBEE_SECRET_KEY": secret}
    return Commands(asking.namesrv_addr, environ)


def make(commands: Commands, name: str, *words: str) -> None:
    """Make a user with everybody's secret."""
    commands("user", "create", name, "--password-file", "-", *words, given=SECRET.encode() + b"\n")


def test_a_user_is_made_changed_and_deleted(asking: ClusterThread, commands: Commands) -> None:
    """On both brokers; his password is in nothing that is printed."""
    make(commands, "ann")
    refused = commands("user", "create", "ann", "--password-file", "-", given=b"x", code=2)
    assert "broker-a, broker-b has a user 'ann' already" in refused.stderr
    listed = commands("user", "list", "--like", "ann", "-o", "json")
    assert SECRET not in listed.output
    assert commands.json("user", "list", "--like", "ann") == [
        {"user": "ann", "type": "Normal", "state": "enabled", "brokers": "broker-a, broker-b"}
    ]
    commands("user", "disable", "ann", "--yes")
    told = of_user(asking, "ann")("topic", "list", code=6)
    assert "this was asked as ann" in told.stderr
    commands("user", "enable", "ann")
    commands("user", "alter", "ann", "--super")
    assert of_user(asking, "ann").json("user", "list", "--like", "ann")[0]["type"] == "Super"
    gone = commands("user", "delete", "ann", "--yes")
    assert gone.stdout == "ann: deleted on broker-a, broker-b\n"
    assert commands("user", "delete", "ann", "--yes").stdout == "ann: nobody had him\n"
    commands("user", "describe", "ann", code=2)
    commands("user", "alter", "ann", "--normal", code=2)


def test_a_password_comes_from_where_nobody_sees_it(
    asking: ClusterThread, commands: Commands, tmp_path: Path
) -> None:
    """A file, a variable, standard input; without any, and nobody to ask, it is code 2."""
    file = tmp_path / "secret"
    file.write_text("of the file\n")
    shown = commands("user", "create", "filed", "--password-file", str(file))
    assert "can be read by others" in shown.stderr
    of_user(asking, "filed", "of the file")("topic", "list", code=6)  # known, without a right
    by_variable = Commands(asking.namesrv_addr, {**commands.environ, "NEW": "of a variable"})
    by_variable("user", "alter", "filed", "--password-env", "NEW")
    told = of_user(asking, "filed", "of the file")("topic", "list", code=6)
    assert "check signature failed" in told.stderr
    refused = commands("user", "create", "other", code=2)
    assert "--password-file FILE" in refused.stderr
    commands("user", "alter", "filed", code=2)
    for wrong in (b"", b"two\nlines"):
        commands("user", "create", "other", "--password-file", "-", given=wrong, code=2)


def test_entries_say_what_a_user_may(asking: ClusterThread, commands: Commands) -> None:
    """Made, shown with their brokers, replaced, taken; what nobody understands is refused here."""
    make(commands, "shop")
    shop = of_user(asking, "shop")
    commands("topic", "create", "acl-orders", "-q", "1")
    lines = b'{"body": "x"}'
    shop("message", "produce", "acl-orders", given=lines, code=1)
    commands("acl", "create", "shop", "-r", "Topic:acl-orders", "-a", "Pub", "-a", "get")
    shop("message", "produce", "acl-orders", given=lines)
    row = {"user": "shop", "policy": "Custom", "resource": "Topic:acl-orders",
           "actions": "Get,Pub", "sources": "", "decision": "Allow",
           "brokers": "broker-a, broker-b"}  # fmt: skip
    assert commands.json("acl", "describe", "shop") == [row]
    refused = commands("acl", "create", "shop", "-r", "Topic:acl-orders", "-a", "Sub", code=2)
    assert "aerobee acl alter" in refused.stderr
    commands("acl", "alter", "shop", "-r", "Topic:other", "-a", "Sub", code=2)
    commands("acl", "alter", "shop", "-r", "Topic:acl-orders", "-a", "Pub",
             "--source", "192.0.2.0/24", "--deny", "-b", "broker-a")  # fmt: skip
    assert [each["decision"] for each in commands.json("acl", "list", "--user", "shop")] == [
        "Allow", "Deny",
    ]  # fmt: skip
    for wrong in (("-r", "orders", "-a", "Pub"), ("-r", "Topic:o", "-a", "Publish"),
                  ("-r", "Topic:o", "-a", "Pub", "--source", "here")):  # fmt: skip
        commands("acl", "create", "shop", *wrong, code=2)
    commands("acl", "create", "nobody", "-r", "Topic:o", "-a", "Pub", code=2)
    commands("acl", "delete", "shop", "-r", "Topic:other", "--yes", code=2)
    commands("acl", "delete", "shop", "-r", "Topic:acl-orders", "--yes")
    assert commands.json("acl", "describe", "shop") == []


def test_a_user_is_brought_to_another_broker(asking: ClusterThread, commands: Commands) -> None:
    """As he is on the first, password and entries as well; brokers that differ are told."""
    make(commands, "moved", "-b", "broker-a")
    commands("acl", "create", "moved", "-r", "Group:g", "-a", "Sub", "-b", "broker-a")
    refused = commands("acl", "create", "moved", "-r", "Group:h", "-a", "Sub", code=2)
    assert "broker-b has no user 'moved'" in refused.stderr
    for _ in range(2):
        commands("user", "copy", "moved", "--from", "broker-a")
        (row,) = commands.json("acl", "describe", "moved")
        assert (row["resource"], row["brokers"]) == ("Group:g", "broker-a, broker-b")
    commands("user", "alter", "moved", "--password-file", "-", "-b", "broker-b", given=b"other")
    shown = commands("user", "list", "--like", "moved")
    assert "moved has another password on broker-a than on broker-b" in shown.stderr
    commands("user", "copy", "moved", "--from", "broker-z", code=2)
    of_user(asking, "moved")("user", "copy", "moved", "--from", "broker-a", code=6)


def test_who_asks_is_told_by_files_too(
    asking: ClusterThread, commands: Commands, tmp_path: Path
) -> None:
    """mqadmin's tools.yml, also below ROCKETMQ_HOME; nobody is refused with what to do."""
    tools = tmp_path / "conf" / "tools.yml"
    tools.parent.mkdir()
    tools.write_text(f"# who asks\naccessKey: {ROOT}\nsecretKey: '{SECRET}'\n")
    tools.chmod(0o600)
    nobody = Commands(asking.namesrv_addr)
    told = nobody("user", "list", code=6)
    assert "nobody signed this" in told.stderr
    assert nobody("topic", "list", "--credentials", str(tools)).stderr == ""
    Commands(asking.namesrv_addr, {"ROCKETMQ_HOME": str(tmp_path)})("user", "list")
    secret = tmp_path / "secret"
    secret.write_text(SECRET + "\n")
    secret.chmod(0o600)
    nobody("user", "list", "--access-key", ROOT, "--secret-key-file", str(secret))
    nobody("user", "list", "--access-key", ROOT, code=2)
    nobody("user", "list", "--secret-key-file", str(secret), code=2)
    tools.write_text("accessKey: root\n")
    nobody("user", "list", "--credentials", str(tools), code=2)


def test_mqadmin_signs_as_rocketmqs_does(
    asking: ClusterThread,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With tools.yml below ROCKETMQ_HOME, what it sends too; without it is refused."""
    words = ["-n", asking.namesrv_addr]
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    make = ["updateTopic", "-t", "signed", "-c", "DefaultCluster", *words]
    assert mqadmin(make) == 1
    tools = tmp_path / "conf" / "tools.yml"
    tools.parent.mkdir()
    tools.write_text(f"accessKey: {ROOT}\nsecretKey: {SECRET}\n")
    tools.chmod(0o600)
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    assert mqadmin(make) == 0
    assert mqadmin(["sendMessage", "-t", "signed", "-p", "hello", *words]) == 0
    assert "SEND_OK" in capsys.readouterr().out
    monkeypatch.setenv("AEROBEE_CREDENTIALS", str(tmp_path / "none"))
    assert mqadmin(make) == 2


def test_a_copy_to_a_cluster_that_asks_says_who_asks_there(
    rocketmq: ClusterThread, asking: ClusterThread, commands: Commands, tmp_path: Path
) -> None:
    """By a file of its own; without it the other cluster refuses, and nothing was sent."""
    plain = Commands(rocketmq.namesrv_addr)
    plain("topic", "create", "acl-source", "-q", "1")
    plain("message", "produce", "acl-source", given=b'{"body": "one"}\n{"body": "two"}')
    commands("topic", "create", "acl-target", "-q", "1")
    words = ("message", "copy", "acl-source", "acl-target", "--name", "acl-copying",
             "--to-namesrv", asking.namesrv_addr)  # fmt: skip
    plain(*words, code=6)
    there = tmp_path / "there.yml"
    there.write_text(f"accessKey: {ROOT}\nsecretKey: {SECRET}\n")
    there.chmod(0o600)
    said = plain(*words, "--to-credentials", str(there))
    assert said.stdout == "2 sent\n"
    assert len(commands.lines("message", "browse", "acl-target")) == 2
    there.write_text("accessKey: x\n")
    plain(*words, "--to-credentials", str(there), code=2)
    plain("message", "copy", "a", "b", "--to-credentials", str(there), code=2)
