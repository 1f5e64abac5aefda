"""Systemd's credentials, and a variable of RocketMQ's."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.config.settings import ServerSettings, SettingsError

USER = '{"username":"root","password":"x=1"}'


class Example(ServerSettings):
    """A server with two secrets, and a key that is none."""

    variables: ClassVar[Mapping[str, str]] = {"OTHERS_HOST": "host"}

    key_password: str = ""
    token: str = ""
    host: str = "here"


def kept(folder: Path, name: str, text: str, mode: int = 0o600) -> Path:
    """Write a file with a secret."""
    path = folder / name
    path.write_bytes(text.encode("latin-1"))
    path.chmod(mode)
    return path


def test_systemds_credentials_are_settings(tmp_path: Path) -> None:
    """By their keys, with a prefix or without; variables weigh more, other files are others'."""
    kept(tmp_path, "keyPassword", "one\n", 0o400)
    kept(tmp_path, "aerobee.token", "two", 0o400)
    kept(tmp_path, "host", "not a secret", 0o400)
    kept(tmp_path, "secretOfOthers", "three", 0o644)
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    made, warnings = Example.load(environ=environ)
    assert (made.key_password, made.token, made.host, warnings) == ("one", "two", "here", [])
    assert made.elsewhere["token"] == "by tokenFile, credential aerobee.token"
    made, _ = Example.load(environ=environ | {"AEROBEE_TOKEN": "stronger"})
    assert made.token == "stronger"
    with pytest.raises(SettingsError, match="cannot read CREDENTIALS_DIRECTORY="):
        Example.load(environ={"CREDENTIALS_DIRECTORY": str(tmp_path / "gone")})


def test_a_variable_of_others_is_the_weakest(tmp_path: Path) -> None:
    """RocketMQ takes it where neither option nor file says anything."""
    config = tmp_path / "server.conf"
    config.write_text("")
    environ = {"OTHERS_HOST": "there"}
    assert Example.load(config, {}, environ)[0].host == "there"
    config.write_text("host=in the file\n")
    assert Example.load(config, {}, environ)[0].host == "in the file"


def test_the_servers_take_them(tmp_path: Path) -> None:
    """NAMESRV_ADDR is a broker's, and means nothing to a nameserver; both have the same secrets."""
    kept(tmp_path, "initAuthenticationUser", USER + "\n")
    environ = {"NAMESRV_ADDR": "ns:9876", "CREDENTIALS_DIRECTORY": str(tmp_path)}
    broker, said = BrokerSettings.load(environ=environ)
    assert broker.namesrv_addr == "ns:9876" and not said
    assert broker.init_authentication_user == USER
    assert USER not in str(broker.chosen())
    namesrv, said = NamesrvSettings.load(environ=environ)
    assert namesrv.init_authentication_user == USER and not said
