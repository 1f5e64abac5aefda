"""A settings file that asks for safety which is not there does not start a broker."""

from pathlib import Path

import pytest
from support.servers.live_broker import live_broker

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.settings.promises import HARMLESS, PROMISES
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.config.settings import SettingsError
from aerobee.remoting.config.settings_keys import ROCKETMQ_KEYS

ASKS = {
    "brokerRole": "SYNC_MASTER",
    "brokerId": "1",
    "inSyncReplicas": "2",
    "minInSyncReplicas": "2",
    "totalReplicas": "3",
    "storeType": "defaultRocksDB",
    "configManagerVersion": "v2",
    "haMasterAddress": "10.0.0.1:10912",
    "readOnlyCommitLogStorePaths": "/old",
    "storePathCommitLog": "/a/commitlog,/b/commitlog",
    "messageStorePlugIn": "org.apache.rocketmq.tieredstore.TieredMessageStore",
    "tls.config.file": "/etc/tls.properties",
}


@pytest.mark.parametrize("key", sorted(PROMISES | ASKS))
def test_a_promise_that_is_not_kept_is_refused_by_name(key: str, tmp_path: Path) -> None:
    """In a file, in the environment, as an option: with the key, its value, and what to do."""
    value = ASKS.get(key, "true")
    file = tmp_path / "broker.conf"
    file.write_text(f"{key} = {value}\n")
    for source in (
        {"file": file, "environ": {}},
        {"environ": {f"AEROBEE_{key}": value}},
        {"options": {key: value}, "environ": {}},
    ):
        with pytest.raises(SettingsError, match=f"^{key} cannot be '{value}'"):
            BrokerSettings.load(**source)


@pytest.mark.parametrize("key", sorted(PROMISES))
def test_what_asks_for_nothing_is_passed_over(key: str) -> None:
    """Files that name the defaults of RocketMQ start a broker, with the one warning as ever."""
    for value in PROMISES[key].fine:
        _, warnings = BrokerSettings.load(options={key: value.upper()}, environ={})
        assert warnings == [f"no effect here, though RocketMQ knows them: {key}"]


def test_all_that_is_wrong_is_said_at_once() -> None:
    """Nobody starts a broker five times to hear of five keys."""
    with pytest.raises(SettingsError) as refused:
        BrokerSettings.load(
            options={"aclEnable": "true", "brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"},
            environ={},
        )
    keys = [line.split()[0] for line in str(refused.value).splitlines()]
    assert sorted(keys) == ["aclEnable", "brokerRole", "inSyncReplicas"]


def test_each_key_of_rocketmq_was_decided_on() -> None:
    """It works, it is harmless, or it is a promise: one of them, and no key twice."""
    works = set(BrokerSettings.keys().values())
    harmless = [key for keys in HARMLESS.values() for key in keys.split()]
    assert len(harmless) == len(set(harmless))
    assert not set(harmless) & PROMISES.keys()
    assert not (set(harmless) | PROMISES.keys()) & works, "a field's key is decided on by its field"
    assert set(harmless) | PROMISES.keys() | works & ROCKETMQ_KEYS == ROCKETMQ_KEYS


async def test_a_promise_is_not_taken_over_the_network_either(tmp_path: Path) -> None:
    """Code 25 refuses it, as a start does."""
    async with live_broker(tmp_path) as live:
        reply = await live.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"aclEnable=true\n")
        assert reply.code == ResponseCode.INVALID_PARAMETER
        assert reply.remark is not None and reply.remark.startswith("aclEnable cannot be 'true'")


def test_a_nameserver_is_no_controller() -> None:
    """Brokers that count on one to choose a master would have none."""
    with pytest.raises(SettingsError, match="enableControllerInNamesrv cannot be 'true'"):
        NamesrvSettings.load(options={"enableControllerInNamesrv": "true"}, environ={})


def test_a_disk_that_is_full_removes_nothing_where_that_is_said() -> None:
    """With cleanFileForciblyEnable=false files go when they have expired, and not before."""
    settings, warnings = BrokerSettings.load(
        options={"cleanFileForciblyEnable": "false"}, environ={}
    )
    assert not warnings
    assert not settings.store.cleans_forcibly
    assert settings.store.disk_ratio_force == 0.85
