"""Secrets from files: what is read, who could read them, and that nobody is shown them."""

import os
from pathlib import Path
from typing import Any

import pytest
from support.servers.live_broker import live_broker

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.config.secret_keys import (
    SECRET_BYTES_MAX,
    file_key_of,
    is_secret,
    open_to_others,
)
from aerobee.remoting.config.settings import ServerSettings, SettingsError

USER = '{"username":"root","password":"a secret"}'


def kept(folder: Path, text: str | bytes = f"{USER}\n", mode: int = 0o600) -> Path:
    """Return a file with a secret."""
    file = folder / "secret"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    file.chmod(mode)
    return file


def load(folder: Path, text: str, **sources: Any) -> tuple[BrokerSettings, list[str]]:
    """Load a broker's settings with a settings file that nobody else can read."""
    file = folder / "broker.conf"
    file.write_text(text)
    file.chmod(sources.pop("mode", 0o600))
    return BrokerSettings.load(file, sources.get("options"), sources.get("environ", {}))


@pytest.mark.parametrize("settings", [BrokerSettings, NamesrvSettings])
def test_every_secret_has_a_key_for_its_file(
    settings: type[ServerSettings], tmp_path: Path
) -> None:
    """In the spelling of files, of options and of the environment."""
    secrets = [key for key in settings.keys().values() if is_secret(key)]
    assert len(secrets) >= 3
    for key in secrets:
        text = {
            "initAuthenticationUser": USER,
            "innerClientAuthenticationCredentials": '{"accessKey":"a","secretKey":"b"}',
            "consoleCredentials": '{"accessKey":"a","secretKey":"b"}',
        }.get(key, "x:y")
        file = str(kept(tmp_path, text))
        for given in (
            settings.load(None, {f"{key}File": file}, {}),
            settings.load(None, {}, {f"AEROBEE_{key.upper()}_FILE": file}),
        ):
            assert dict(given[0].items())[key] == text
            assert given[1] == []
    assert file_key_of("logFile") == file_key_of("tls.config.file") == ""


def test_a_file_outweighs_what_is_weaker_and_yields_to_what_is_stronger(tmp_path: Path) -> None:
    """Options before the environment before the settings file, with a file or without."""
    file = kept(tmp_path, "of the file\r\n")
    settings, _ = load(
        tmp_path,
        "tls.server.keyPassword=x",
        environ={"AEROBEE_TLS_SERVER_KEYPASSWORD_FILE": str(file)},
    )
    assert settings.tls_server_key_password == "of the file"
    settings, _ = load(
        tmp_path,
        f"tls.server.keyPasswordFile={file}",
        environ={"AEROBEE_TLS_SERVER_KEY_PASSWORD": "of the environment"},
    )
    assert settings.tls_server_key_password == "of the environment"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("initAuthenticationUserFile=", "names no file"),
        ("initAuthenticationUserFile={folder}", "cannot be read: Is a directory"),
        ("initAuthenticationUserFile={folder}/none", "cannot be read: No such file"),
        ("initAuthenticationUserFile=~nobody.of.this.name/x", "names no file that can be opened"),
        ("initAuthenticationUserFile={file}\ninitAuthenticationUser={user}", "are given"),
        ("initAuthenticationUser={user}\ninitAuthenticationUserFile={file}", "are given"),
    ],
)
def test_what_cannot_be_read_keeps_a_server_from_starting(
    tmp_path: Path, text: str, told: str
) -> None:
    """A secret that is missing in silence would be found out by who is locked out."""
    text = text.format(folder=tmp_path, file=kept(tmp_path), user=USER)
    with pytest.raises(SettingsError, match=r"initAuthenticationUser(File)? \(in ") as error:
        load(tmp_path, text)
    assert told in str(error.value)
    assert "a secret" not in str(error.value)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"\xff\xfe", "is no text in UTF-8"),
        (b"x" * (SECRET_BYTES_MAX + 1), "more than 65536 bytes"),
        (b'{"username":"root","passw', "allowed: JSON like"),
    ],
)
def test_a_file_that_holds_no_secret_is_told_without_what_it_holds(
    tmp_path: Path, data: bytes, told: str
) -> None:
    """Half-written, empty, another file."""
    with pytest.raises(SettingsError) as error:
        load(tmp_path, f"initAuthenticationUserFile={kept(tmp_path, data)}")
    assert told in str(error.value)
    assert "passw" not in str(error.value).replace("password", "")


def test_files_that_others_can_read_are_told(tmp_path: Path) -> None:
    """Containers mount secrets so, where nobody else is: a warning, and the server starts."""
    file = kept(tmp_path, mode=0o640)
    settings, warnings = load(tmp_path, f"initAuthenticationUserFile={file}")
    assert settings.init_authentication_user == USER
    told = "holds a secret and others can use it (mode 0640)"
    assert warnings == [f"{file} {told}: chmod 600 {file}"]
    conf = tmp_path / "broker.conf"
    _, warnings = load(tmp_path, "tls.server.keyPassword=x\nlistenPort=5", mode=0o644)
    assert warnings == [f"{conf} {told}: chmod 600 {conf}".replace("0640", "0644")]
    assert load(tmp_path, "listenPort=5", mode=0o644)[1] == []


def test_a_group_may_use_what_is_mounted_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Kubernetes does it: the file is root's; everybody may not."""
    monkeypatch.setattr(os, "geteuid", lambda: -1)
    assert open_to_others(kept(tmp_path, mode=0o440)) == ""
    assert "(mode 0444)" in open_to_others(kept(tmp_path, mode=0o444))


def test_a_secret_in_the_list_of_processes_is_told(tmp_path: Path) -> None:
    """Its file is not."""
    _, warnings = load(tmp_path, "", options={"tls_server_key_password": "x"})
    (warning,) = warnings
    assert "list of processes: use tls_server_key_passwordFile" in warning
    file = os.fspath(kept(tmp_path))
    assert load(tmp_path, "", options={"init_authentication_user_file": file})[1] == []


async def test_a_secret_of_a_file_is_shown_to_nobody_and_changed_by_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not by 26, 25, the log of the start: the settings file does not decide on it."""
    caplog.set_level("INFO")
    file = kept(tmp_path, "of the file")
    loaded, _ = load(tmp_path, f"tls.server.keyPasswordFile={file}\ntls.server.mode=disabled")
    assert "of the file" not in repr(loaded.chosen())
    assert loaded.elsewhere["tls_server_key_password"].startswith("by tls.server.keyPasswordFile")
    async with live_broker(tmp_path, tls_server_key_password="of the file") as live:
        shown = (await live.ask(RequestCode.GET_BROKER_CONFIG)).body
        assert b"tls.server.keyPassword=******" in shown
        reply = await live.ask(
            RequestCode.UPDATE_BROKER_CONFIG, body=b"tls.server.keyPassword=other"
        )
        assert reply.code == ResponseCode.INVALID_PARAMETER
    assert "of the file" not in caplog.text
