"""A setting that nobody reads would promise an effect that it does not have."""

import dataclasses
import re
from typing import Any

import msgspec
import pytest
from support.runs.source_tree import ROOT

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.client import settings as client
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.net.limits import NetLimits
from aerobee.storage.settings import StoreSettings

FOLDERS = (
    "remoting",
    "storage",
    "broker",
    "namesrv",
    "client",
    "admin",
    "testing",
    "cli",
    "console",
)
CHECKED_ONLY = {  # one value is accepted: see BrokerSettings._a_master, AccessKeys._a_known_class
    "broker_role",
    "authentication_provider",
    "authorization_provider",
}


def fields(settings: type[Any]) -> set[str]:
    """Name the fields of a settings class of any kind."""
    if issubclass(settings, msgspec.Struct):
        return set(settings.__struct_fields__)
    if dataclasses.is_dataclass(settings):
        return {field.name for field in dataclasses.fields(settings)}
    return set(settings.model_fields)


@pytest.mark.parametrize(
    "settings",
    [
        BrokerSettings,
        NamesrvSettings,
        StoreSettings,
        NetLimits,
        client.ClientSettings,
        client.ProducerSettings,
        client.PullSettings,
        client.PushSettings,
        client.LitePullSettings,
    ],
)
def test_every_setting_is_read_somewhere(settings: type[Any]) -> None:
    """Each field occurs as an attribute in production code; keys without effect get a warning."""
    text = "\n".join(path.read_text() for each in FOLDERS for path in (ROOT / each).rglob("*.py"))
    read = set(re.findall(r"\.([a-z_0-9]+)\b", text))
    limits = {f"{name.removesuffix('_s')}_ms" for name in fields(NetLimits)}  # by net_limits
    unread = fields(settings) - read - limits - CHECKED_ONLY
    assert not unread, f"nobody reads {sorted(unread)} of {settings.__name__}"
