"""Settings of a server process: sources, precedence, warnings and errors."""

from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field, ValidationError, model_validator

from aerobee.remoting.config.settings import NUMBER_MAX, ServerSettings, SettingsError
from aerobee.remoting.config.settings_keys import ROCKETMQ_KEYS
from aerobee.remoting.config.sources import FILE_BYTES_MAX


class Example(ServerSettings):
    """A small server's settings."""

    broker_name: str = "broker-a"
    broker_ip: str = Field(default="127.0.0.1", validation_alias="brokerIP1")
    listen_port: int = Field(default=10911, ge=0, le=65535)
    segment_bytes: int = Field(default=1 << 30, gt=0, validation_alias="mappedFileSizeCommitLog")
    flush_mode: Literal["ASYNC_FLUSH", "SYNC_FLUSH"] = Field(
        default="ASYNC_FLUSH", validation_alias="flushDiskType"
    )
    auto_create: bool = Field(default=True, validation_alias="autoCreateTopicEnable")
    ratio: float = Field(default=0.75, gt=0, lt=1)
    http_port: int | None = None

    @model_validator(mode="after")
    def _ports_differ(self) -> "Example":
        if self.http_port == self.listen_port:
            raise ValueError("listenPort and httpPort must differ")
        return self


def load(
    text: str | None = None, tmp_path: Path | None = None, **sources: dict[str, str]
) -> tuple[Example, list[str]]:
    """Load the example with the given file text, environment and options only."""
    file = None
    if text is not None:
        assert tmp_path is not None
        file = tmp_path / "broker.conf"
        file.write_text(text, encoding="utf-8")
    return Example.load(file, sources.get("options"), sources.get("environ", {}))


def test_rocketmq_file_is_read(tmp_path: Path) -> None:
    """A broker.conf as RocketMQ ships it means the same here."""
    settings, warnings = load(
        "# comment\nbrokerName = broker-b \nbrokerIP1=10.0.0.7\nlistenPort=20911\n"
        "flushDiskType=SYNC_FLUSH\nautoCreateTopicEnable=FALSE\nmappedFileSizeCommitLog=1048576\n",
        tmp_path,
    )
    assert warnings == []
    assert settings.broker_name == "broker-b"
    assert settings.broker_ip == "10.0.0.7"
    assert settings.listen_port == 20911
    assert settings.flush_mode == "SYNC_FLUSH"
    assert settings.auto_create is False
    assert settings.segment_bytes == 1048576


def test_the_stronger_source_wins(tmp_path: Path) -> None:
    """Options beat the environment, that beats the file, that beats the defaults."""
    settings, _ = load(
        "listenPort=1\nbrokerName=file\nbrokerIP1=1.1.1.1",
        tmp_path,
        environ={"AEROBEE_LISTEN_PORT": "2", "AEROBEE_BROKER_NAME": "env", "HOME": "/"},
        options={"listen-port": "3"},
    )
    assert (settings.listen_port, settings.broker_name, settings.broker_ip) == (3, "env", "1.1.1.1")
    assert settings.ratio == 0.75


@pytest.mark.parametrize("key", ["listenPort", "listen-port", "LISTEN_PORT", "listen.port"])
def test_spellings_of_one_key(key: str) -> None:
    """Case, dots, dashes and underscores do not matter in a key."""
    assert load(options={key: "7"})[0].listen_port == 7


def test_attribute_names_are_keys_too() -> None:
    """A key whose attribute carries a unit can be given by either name."""
    assert load(options={"segment_bytes": "9"})[0].segment_bytes == 9


def test_an_unknown_key_warns_and_names_the_nearest(tmp_path: Path) -> None:
    """A typing mistake is told, wherever it was made."""
    _, warnings = load("listenPrt=1\nxyzzy=2", tmp_path, environ={"AEROBEE_BROKER_NAM": "b"})
    assert warnings == [
        f"unknown key listenPrt (in {tmp_path}/broker.conf) is ignored: did you mean listenPort?",
        f"unknown key xyzzy (in {tmp_path}/broker.conf) is ignored: no known key resembles it",
        "unknown key BROKER_NAM (AEROBEE_BROKER_NAM) is ignored: did you mean brokerName?",
    ]


def test_an_unknown_key_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    """Bytes of a file that is no settings file at all are shown as text."""
    _, warnings = load("\x1b[2Jqqq=1\n=2", tmp_path)
    where = f"(in {tmp_path}/broker.conf) is ignored: no known key resembles it"
    assert warnings == [f"unknown key '\\x1b[2Jqqq' {where}", f"unknown key '' {where}"]


def test_keys_that_only_rocketmq_has_are_one_soft_note(tmp_path: Path) -> None:
    """A file made for the Java broker draws one line, not one per thread pool."""
    _, warnings = load("haListenPort=1\nsendMessageThreadPoolNums=4\nlistenPort=5", tmp_path)
    assert warnings == [
        "no effect here, though RocketMQ knows them: haListenPort, sendMessageThreadPoolNums"
    ]


def test_one_environment_serves_brokers_and_nameservers() -> None:
    """A variable with a key that only another server heeds is no news; in a file it would be."""
    assert load(environ={"AEROBEE_HA_LISTEN_PORT": "1"})[1] == []


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("listenPort", "tcp", "a whole number from 0 to 65535"),
        ("listenPort", "70000", "a whole number from 0 to 65535"),
        ("flushDiskType", "LATER", "ASYNC_FLUSH, SYNC_FLUSH"),
        ("autoCreateTopicEnable", "maybe", "true, false"),
        ("mappedFileSizeCommitLog", "0", "a whole number above 0"),
        ("ratio", "2", "a number above 0 below 1"),
        ("httpPort", "", "a whole number"),
    ],
)
def test_a_bad_value_names_key_value_and_what_is_allowed(
    key: str, value: str, allowed: str
) -> None:
    """The operator can mend the setting from the message alone."""
    with pytest.raises(SettingsError) as error:
        load(options={key: value})
    assert str(error.value) == f"{key} cannot be {value!r} (option): allowed: {allowed}"


def test_a_secret_that_another_line_has_swallowed_is_not_shown(tmp_path: Path) -> None:
    """A backslash at the end of a line takes the next one, a password maybe, into the value."""
    with pytest.raises(SettingsError) as error:
        load("listenPort=12 \\\n tls.server.keyPassword=geheim\n", tmp_path)
    assert "listenPort cannot be '******'" in str(error.value)
    assert "geheim" not in str(error.value)


def test_values_that_do_not_go_together_are_named_by_their_validator() -> None:
    """A rule over two settings speaks in its own words."""
    with pytest.raises(SettingsError, match=r"^listenPort and httpPort must differ$"):
        load(options={"httpPort": "10911"})


def test_a_number_beyond_every_system_call_is_refused() -> None:
    """Compiled code and timers take 64 bits: it would be found out when somebody is served."""

    class Counts(ServerSettings):
        """One number without a limit of its own."""

        topics_max: int = Field(default=5, ge=1)

    assert Counts.load(None, {"topicsMax": str(NUMBER_MAX)}, {})[0].topics_max == NUMBER_MAX
    with pytest.raises(SettingsError, match=rf"allowed: a whole number up to {NUMBER_MAX}$"):
        Counts.load(None, {"topicsMax": str(NUMBER_MAX + 1)}, {})


def test_a_text_that_no_system_call_takes_is_refused() -> None:
    """A path or host with the character 0 ends a start without a word of where it came from."""
    with pytest.raises(
        SettingsError, match=r"brokerIP1 cannot be 'a\\x00b' \(option\): allowed: t"
    ):
        Example.load(None, {"brokerIP1": "a\0b"}, {})


def test_a_long_value_is_shown_in_part() -> None:
    """Whoever sends one gets an answer that fits into a header."""
    with pytest.raises(SettingsError) as refused:
        Example.load(None, {"listenPort": "x" * 10_000}, {})
    assert "'xxxx" in str(refused.value) and len(str(refused.value)) < 400


def test_every_bad_value_is_named_at_once(tmp_path: Path) -> None:
    """Two mistakes need one attempt, not two."""
    with pytest.raises(SettingsError) as error:
        load("listenPort=x\nratio=y", tmp_path)
    assert len(str(error.value).splitlines()) == 2
    assert f"(in {tmp_path}/broker.conf)" in str(error.value)


def test_a_bad_value_leaves_the_warnings(tmp_path: Path) -> None:
    """A misspelt key may be why another one is wrong; both are told in one attempt."""
    with pytest.raises(SettingsError) as error:
        load("listenPrt=1\nhttpPort=10911", tmp_path)
    (warning,) = error.value.warnings
    assert warning.startswith("unknown key listenPrt")
    assert str(error.value).splitlines() == ["listenPort and httpPort must differ", warning]


def test_a_file_that_cannot_be_read_is_a_clear_error(tmp_path: Path) -> None:
    """A missing, huge or malformed file is named with the reason."""
    with pytest.raises(SettingsError, match=r"nowhere.conf: No such file"):
        Example.load(tmp_path / "nowhere.conf", environ={})
    big = tmp_path / "big.conf"
    big.write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    with pytest.raises(SettingsError, match="this is no settings file"):
        Example.load(big, environ={})
    bad = tmp_path / "bad.conf"
    bad.write_text("a=\\u12")
    with pytest.raises(SettingsError, match=r"bad.conf: line 1"):
        Example.load(bad, environ={})


def test_latin_1_files_are_read_as_java_does(tmp_path: Path) -> None:
    """java.util.Properties reads ISO-8859-1, so bytes that are no UTF-8 are taken so."""
    file = tmp_path / "old.conf"
    file.write_bytes("brokerName=é".encode("latin-1"))
    assert Example.load(file, environ={})[0].broker_name == "é"


def test_the_constructor_reads_nothing_but_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """An embedded server does not change with the environment, and its settings are frozen."""
    monkeypatch.setenv("AEROBEE_LISTEN_PORT", "1")
    settings = Example(listen_port=5, broker_ip="::1")
    assert (settings.listen_port, settings.broker_ip) == (5, "::1")
    with pytest.raises(ValidationError):
        settings.listen_port = 6


def test_items_print_as_a_properties_file() -> None:
    """What the print option shows could be loaded again."""
    items = dict(Example(listen_port=0).items())
    assert items["brokerIP1"] == "127.0.0.1"
    assert items["autoCreateTopicEnable"] == "true"
    assert (items["httpPort"], items["listenPort"]) == ("", "0")
    assert next(iter(items)) == "brokerName"


def test_the_key_list_has_the_well_known_ones() -> None:
    """Keys of every class that RocketMQ's two servers read are in the list."""
    wanted = "brokerIP1 haListenPort serverWorkerThreads kvConfigPath tls.server.mode namesrvAddr"
    assert set(wanted.split()) <= ROCKETMQ_KEYS
