"""Settings that change while the broker runs."""

from contextlib import suppress
from pathlib import Path

import pytest

from aerobee.broker.settings.changes import SettingsChanges
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.settings.live import Live
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.config.java_properties import parse_java_properties
from aerobee.remoting.config.secret_keys import HIDDEN
from aerobee.remoting.config.sources import FILE_BYTES_MAX
from aerobee.remoting.errors import RequestError

CONF = """# kept by hand
brokerName=broker-x
! another comment
fileReservedTime = 48
namesrvAddr=10.0.0.1:9876;\\
  10.0.0.2:9876
deleteWhen=04
"""


class World:
    """Live settings, the applied ones in a list."""

    def __init__(self, file: Path | None = None) -> None:
        self.applied: list[BrokerSettings] = []
        settings = BrokerSettings(broker_ip1="127.0.0.1")
        if file is not None:
            settings, _ = BrokerSettings.load(file, {"brokerIP1": "127.0.0.1"}, {})
        self.live = Live(settings)
        self.live.on_change(self.applied.append)
        self.changes = SettingsChanges(self.live, file, lambda: 5)


async def test_a_change_is_applied_and_shown() -> None:
    """What does not need a restart works at once; the version says that something changed."""
    world = World()
    said = await world.changes.update({"autoCreateTopicEnable": "false", "nonsense": "1"})
    assert said == (
        "works now until the broker stops (start it with -c FILE to have changes kept):"
        " autoCreateTopicEnable; means nothing here: nonsense"
    )
    assert world.applied == [world.live.current]
    assert world.live.current.auto_create_topic_enable is False
    assert parse_java_properties(world.changes.text())["autoCreateTopicEnable"] == "false"
    assert world.changes.data_version.counter == 1


async def test_what_needs_a_restart_is_kept_for_it(tmp_path: Path) -> None:
    """A port cannot change under its clients; the text shows what the next start will use."""
    file = tmp_path / "broker.conf"
    file.write_text(CONF)
    world = World(file)
    said = await world.changes.update({"listenPort": "12345", "traceOn": "false"})
    assert said == "works now: traceOn; works after a restart: listenPort"
    assert await world.changes.update({"traceOn": "true"}) == "works now: traceOn"
    assert world.live.current.listen_port == 10911
    assert parse_java_properties(world.changes.text())["listenPort"] == "12345"
    assert BrokerSettings.load(file, {}, {})[0].listen_port == 12345


async def test_what_needs_a_restart_is_refused_where_nothing_keeps_it() -> None:
    """Without a file a promise for the next start would be broken; values that stay are fine."""
    world = World()
    with pytest.raises(RequestError) as refused:
        await world.changes.update(
            {"flushDiskType": "SYNC_FLUSH", "listenPort": "12345", "traceOn": "false"}
        )
    assert refused.value.code == ResponseCode.INVALID_PARAMETER
    assert refused.value.remark == (
        "listenPort, flushDiskType cannot change without a restart, and the broker was started"
        " without -c FILE, where the change could be kept"
    )
    assert not world.applied and world.live.current.trace_on
    assert parse_java_properties(world.changes.text())["flushDiskType"] == "ASYNC_FLUSH"
    said = await world.changes.update({"flushDiskType": "ASYNC_FLUSH", "traceOn": "false"})
    assert said.startswith("works now until the broker stops")
    assert said.endswith(": traceOn; works already, as they are: flushDiskType")
    assert await world.changes.update({"nonsense": "1"}) == "means nothing here: nonsense"


@pytest.mark.parametrize("where", ["option", "AEROBEE_LISTEN_PORT"])
async def test_what_a_file_does_not_decide_on_is_not_promised_for_the_next_start(
    tmp_path: Path, where: str
) -> None:
    """The start takes an option or variable whatever the file says; what stays is fine."""
    file = tmp_path / "broker.conf"
    file.write_text(CONF)
    given = {"listenPort": "10911", "traceOn": "true", "brokerIP1": "127.0.0.1"}
    variables = {f"AEROBEE_{key.upper()}": value for key, value in given.items()}
    variables["AEROBEE_LISTEN_PORT"] = variables.pop("AEROBEE_LISTENPORT")
    options = given if where == "option" else {}
    settings, _ = BrokerSettings.load(file, options, {} if options else variables)
    live = Live(settings)
    changes = SettingsChanges(live, file, lambda: 5)
    with pytest.raises(RequestError) as refused:
        await changes.update({"listenPort": "12345", "brokerName": "y", "traceOn": "false"})
    assert refused.value.code == ResponseCode.INVALID_PARAMETER
    assert refused.value.remark.startswith(f"listenPort ({where}) cannot change without a restart")
    assert file.read_text() == CONF and live.current.trace_on
    for value in ("false", "true"):
        said = await changes.update({"listenPort": "10911", "brokerName": "y", "traceOn": value})
        assert said == (
            "works now until the broker stops, an option or the environment decides at starts:"
            " traceOn; works after a restart: brokerName; works already, as they are: listenPort"
        )


@pytest.mark.parametrize(
    "key",
    ["brokerConfigPath", "rocketmqHome", "configBlackList", "ROCKETMQ-home", "messageDelayLevel"],
)
async def test_blacklisted_keys_change_nothing(key: str) -> None:
    """One forbidden key refuses the whole request, in any spelling (CVE-2023-33246)."""
    world = World()
    world.live.current = BrokerSettings(config_black_list="messageDelayLevel")
    with pytest.raises(RequestError) as refused:
        await world.changes.update({"traceOn": "false", key: "$(touch /tmp/x)"})
    assert refused.value.code == ResponseCode.NO_PERMISSION
    assert refused.value.remark == "Can not update config in black list."
    assert not world.applied and world.live.current.trace_on


async def test_a_bad_value_changes_nothing() -> None:
    """The refusal names the key, the value and what is allowed."""
    world = World()
    with pytest.raises(RequestError) as refused:
        await world.changes.update({"traceOn": "false", "brokerPermission": "77"})
    assert refused.value.code == ResponseCode.INVALID_PARAMETER
    assert "brokerPermission cannot be '77'" in refused.value.remark
    assert "a whole number from 0 to 7" in refused.value.remark
    assert not world.applied and world.live.current.trace_on


async def test_the_file_keeps_its_other_lines(tmp_path: Path) -> None:
    """Changed keys are replaced, comments stay, and the next start reads the change."""
    file = tmp_path / "broker.conf"
    file.write_text(CONF)
    world = World(file)
    await world.changes.update({"namesrvAddr": "10.0.0.3:9876", "fileReservedTime": "12"})
    text = file.read_text()
    assert "# kept by hand\nbrokerName=broker-x\n! another comment\ndeleteWhen=04\n" in text
    assert "10.0.0.1" not in text and "10.0.0.2" not in text
    again, warnings = BrokerSettings.load(file, {}, {})
    assert (again.namesrv_addr, again.file_reserved_time) == ("10.0.0.3:9876", 12)
    assert not warnings
    assert (tmp_path / "broker.conf.bak").read_text() == CONF


async def test_text_of_an_attacker_stays_a_value(tmp_path: Path) -> None:
    """A line break in a value cannot become a line of the file."""
    file = tmp_path / "broker.conf"
    file.write_text(CONF)
    world = World(file)
    await world.changes.update({"brokerIP2": "x\nrocketmqHome=/evil"})
    assert "rocketmqHome" not in parse_java_properties(file.read_text())


async def test_a_file_that_cannot_be_written_refuses_the_change(tmp_path: Path) -> None:
    """Nothing is applied that the next start would forget."""
    file = tmp_path / "broker.conf"
    file.write_text(CONF)
    world = World(file)
    file.unlink()
    file.mkdir()
    with pytest.raises(RequestError) as refused:
        await world.changes.update({"traceOn": "false"})
    assert refused.value.code == ResponseCode.SYSTEM_ERROR
    assert not world.applied


async def test_secrets_are_not_shown() -> None:
    """Code 26 answers anybody who can connect."""
    world = World()
    world.live.current = BrokerSettings(tls_server_key_password="geheim")
    assert "geheim" not in world.changes.text()
    assert parse_java_properties(world.changes.text())["tls.server.keyPassword"] == HIDDEN


async def test_what_was_read_can_be_written_back(tmp_path: Path) -> None:
    """A tool that reads all, changes one and sends all does not make asterisks the password."""
    file = tmp_path / "broker.conf"
    file.write_text("tls.server.keyPassword=geheim\n")
    world = World(file)
    shown = parse_java_properties(world.changes.text())
    black = ("configBlackList",)
    said = await world.changes.update(
        {key: value for key, value in shown.items() if key not in black} | {"traceOn": "false"}
    )
    assert said.endswith("; stays as it is: tls.server.keyPassword")
    after, _ = BrokerSettings.load(file, {}, {})
    assert (after.tls_server_key_password, after.trace_on) == ("geheim", False)


async def test_a_stranger_undoes_nothing_that_waits_for_a_restart(tmp_path: Path) -> None:
    """Neither what an operator has sent, nor what he has typed into the file."""
    file = tmp_path / "broker.conf"
    file.write_text("httpHost=0.0.0.0\nbindAddress=0.0.0.0\n")
    world = World(file)
    await world.changes.update({"httpHost": "127.0.0.1"})
    with pytest.raises(RequestError) as refused:
        await world.changes.update({"httpHost": "0.0.0.0"}, "10.1.1.2:40000")
    assert refused.value.code == ResponseCode.NO_PERMISSION
    file.write_text("httpHost=127.0.0.1\nbindAddress=127.0.0.1\n")
    said = await world.changes.update(
        {"bindAddress": "0.0.0.0", "traceOn": "false"}, "10.1.1.2:40000"
    )
    assert said == "works now: traceOn; stays as it is: bindAddress"
    after, _ = BrokerSettings.load(file, {}, {})
    assert (after.http_host, after.bind_address) == ("127.0.0.1", "127.0.0.1")
    assert after.trace_on is False


async def test_changes_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    """Each alone is allowed; the next start would refuse the two."""
    file = tmp_path / "broker.conf"
    file.write_text("")
    world = World(file)
    await world.changes.update({"writePauseBytes": "100000"})
    with pytest.raises(RequestError) as refused:
        await world.changes.update({"writeResumeBytes": "200000"})
    assert refused.value.code == ResponseCode.INVALID_PARAMETER
    BrokerSettings.load(file, {}, {})


@pytest.mark.parametrize(
    ("key", "value"),
    [("regionId", "a\x02KEYS\x01b"), ("regionId", "r" * 128), ("regionId", "a\nb"),
     ("msgTraceTopicName", "../../x")],
)  # fmt: skip
async def test_a_value_that_breaks_messages_or_the_next_start_is_refused(
    tmp_path: Path, key: str, value: str
) -> None:
    """What goes into every message and every folder's name is looked at, not found out later."""
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=b\n")
    world = World(file)
    with pytest.raises(RequestError) as refused:
        await world.changes.update({key: value})
    assert refused.value.code == ResponseCode.INVALID_PARAMETER
    assert file.read_text() == "brokerName=b\n"
    assert world.applied == []


@pytest.mark.parametrize(
    "text", ["brokerName=b\n# wait\x85 brokerName=c\n", "regionId=x\nbrokerName=b\\\n"]
)
async def test_a_line_is_what_java_calls_one(tmp_path: Path, text: str) -> None:
    """The other lines mean the same afterwards."""
    file = tmp_path / "broker.conf"
    file.write_text(text, encoding="utf-8")
    world = World(file)
    await world.changes.update({"traceOn": "false"})
    after, warnings = BrokerSettings.load(file, {}, {})
    assert (after.broker_name, after.trace_on, warnings) == ("b", False, [])


@pytest.mark.parametrize("value", ["6" + " " * FILE_BYTES_MAX, "0" * FILE_BYTES_MAX + "6"])
async def test_a_long_way_to_write_a_value_does_not_end_the_next_start(
    tmp_path: Path, value: str
) -> None:
    """A start reads files up to a size, so nobody from afar makes this one larger."""
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=b\n")
    changes = World(file).changes
    with suppress(RequestError):
        await changes.update({"brokerPermission": value}, "192.0.2.7:5")
    assert file.stat().st_size < FILE_BYTES_MAX
    BrokerSettings.load(file, {}, {})


async def test_a_file_with_a_password_stays_its_owners(tmp_path: Path) -> None:
    """A change of anything else does not show it to others."""
    file = tmp_path / "broker.conf"
    file.write_text("tls.server.keyPassword=secret\n")
    file.chmod(0o600)
    await World(file).changes.update({"traceOn": "false"})
    assert file.stat().st_mode & 0o777 == 0o600
