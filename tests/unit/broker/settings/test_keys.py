"""The broker's settings under RocketMQ's keys."""

from pathlib import Path

import pytest

from aerobee.broker.settings.keys import BrokerSettings, local_address
from aerobee.broker.start.hosts import record_host
from aerobee.remoting.config.settings import SettingsError
from aerobee.remoting.net.tls import ClientAuth, TlsMode
from aerobee.storage.settings import DELAY_LEVELS_MS, StoreSettings

SHIPPED = """# what RocketMQ ships as broker.conf
brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
"""


def test_rocketmqs_own_file_is_taken(tmp_path: Path) -> None:
    """No warning for any of its keys; its values reach the store."""
    file = tmp_path / "broker.conf"
    file.write_text(SHIPPED + f"storePathRootDir={tmp_path}\nbrokerIP1=127.0.0.1\n")
    settings, warnings = BrokerSettings.load(file, {}, {})
    assert warnings == []
    assert settings.store.retention_hours == 48
    assert settings.store.root == tmp_path
    assert settings.config_dir == tmp_path / "config"


@pytest.mark.parametrize(
    ("key", "value", "meant"),
    [
        ("deleteWhen", "4", {"delete_hours": (4,)}),
        ("deleteWhen", "4;16", {"delete_hours": (4, 16)}),
        ("deleteWhen", "004; 0;23;", {"delete_hours": (4, 0, 23)}),
        ("diskMaxUsedSpaceRatio", "5", {"disk_ratio_clean": 0.1}),
        ("diskMaxUsedSpaceRatio", "99", {"disk_ratio_clean": 0.95}),
        ("mappedFileSizeConsumeQueue", "6000010", {"queue_file_entries": 300_001}),
        ("mappedFileSizeConsumeQueue", "6000000", {"queue_file_entries": 300_000}),
        ("storePathCommitLog", "", {"commit_log_dir": None}),
    ],
)
def test_values_that_rocketmq_takes_are_taken(
    key: str, value: str, meant: dict[str, object]
) -> None:
    """Read, rounded and moved into their limits as its own classes do it."""
    store = BrokerSettings.load(None, {key: value}, {})[0].store
    assert {name: getattr(store, name) for name in meant} == meant


@pytest.mark.parametrize("key", ["brokerName", "brokerClusterName"])
def test_names_may_be_those_of_hosts(key: str) -> None:
    """With dots, as RocketMQ's default has them, but fit to name a folder."""
    settings, _ = BrokerSettings.load(None, {key: "host1.example.com"}, {})
    assert "host1.example.com" in (settings.broker_name, settings.broker_cluster_name)
    for bad in (".", "..", "a/b", "a" * 128, "é", "a b", ""):
        with pytest.raises(SettingsError, match=f"{key} cannot be"):
            BrokerSettings.load(None, {key: bad}, {})


def test_what_is_printed_can_be_loaded() -> None:
    """Also what has no value: it means its default again."""
    settings = BrokerSettings(broker_ip1="127.0.0.1")
    again, warnings = BrokerSettings.load(None, dict(settings.items()), {})
    assert (again, warnings) == (settings, [])


def test_defaults_of_the_store_are_the_stores_own() -> None:
    """Both sides mean the same by a default; the store reads as many as a full reply may have."""
    settings = BrokerSettings(broker_ip1="127.0.0.1")
    root, count = settings.store_path_root_dir, settings.full_reply_count_max
    assert settings.store == StoreSettings(root=root, transfer_count_memory=count)
    assert settings.delay_levels_ms == DELAY_LEVELS_MS


def test_what_the_store_and_the_network_get() -> None:
    """Keys with RocketMQ's units become values with ours."""
    settings, _ = BrokerSettings.load(
        None,
        {
            "flushDiskType": "SYNC_FLUSH",
            "syncFlushTimeout": "1234",
            "mappedFileSizeCommitLog": "1048576",
            "mappedFileSizeConsumeQueue": "6000",
            "diskMaxUsedSpaceRatio": "80",
            "deleteWhen": "04;16",
            "messageDelayLevel": "1s 2m 3h 4d",
            "maxMessageSize": "65536",
            "serverChannelMaxIdleTimeSeconds": "7",
            "tls.server.mode": "enforcing",
            "tls.server.need.client.auth": "require",
        },
        {},
    )
    store = settings.store
    assert (store.flush_mode, store.sync_flush_timeout_ms) == ("SYNC_FLUSH", 1234)
    assert (store.segment_bytes, store.queue_file_entries) == (1 << 20, 300)
    assert (store.disk_ratio_clean, store.delete_hours) == (0.8, (4, 16))
    assert store.delay_levels_ms == (1000, 120_000, 10_800_000, 345_600_000)
    assert store.message_bytes_max == 65536
    assert settings.net_limits.idle_timeout_s == 7
    assert settings.tls.mode is TlsMode.ENFORCING
    assert settings.tls.client_auth is ClientAuth.REQUIRE


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("listenPort", "70000", "listenPort cannot be '70000'"),
        ("listenPort", "1", "3 to 65535, since the broker serves on listenPort - 2 as well, or 0"),
        ("listenPort", "2", "listenPort cannot be '2' (option): allowed: 3 to 65535"),
        ("storePathRootDir", "", "storePathRootDir cannot be '' (option): allowed: a path"),
        ("storePathRootDir", "  ", "storePathRootDir cannot be ''"),
        ("diskMaxUsedSpaceRatio", "x", "allowed: a whole number from 10 to 95"),
        ("brokerName", "a b", "brokerName cannot be 'a b'"),
        ("namesrvAddr", "localhost", "allowed: host:port, several joined by ;"),
        ("namesrvAddr", "localhost:0", "allowed: host:port"),
        ("flushDiskType", "SOMETIMES", "allowed: ASYNC_FLUSH, SYNC_FLUSH"),
        (
            "messageDelayLevel",
            "1s 5x",
            "messageDelayLevel cannot be '1s 5x' (option): allowed: text like 1s 5s 10s 30s",
        ),
        ("deleteWhen", "24", "deleteWhen cannot be '24'"),
        ("deleteWhen", "4;;16", "deleteWhen cannot be '4;;16'"),
        ("autoCreateTopicEnable", "maybe", "allowed: true, false"),
        ("brokerRole", "SLAVE", "every broker is a master here"),
        ("brokerId", "1", "every broker is a master here"),
        ("httpPort", "on", "httpPort cannot be 'on'"),
    ],
)
def test_bad_values_are_explained(key: str, value: str, words: str) -> None:
    """The error names the key, the value and what is allowed."""
    with pytest.raises(SettingsError) as refused:
        BrokerSettings.load(None, {key: value}, {})
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("listen", "given", "wanted"),
    [
        ("10911", None, 10913),
        ("0", None, 0),
        ("3", None, 5),
        ("65535", None, 0),
        ("10911", "0", 0),
        ("10911", "8080", 8080),
        ("10911", "-1", None),
        ("10911", "off", None),
        ("10911", "", 10913),
    ],
)
def test_http_port(listen: str, given: str | None, wanted: int | None) -> None:
    """By default two above the port, never in the way of another broker's; `off` is off."""
    options = {"listenPort": listen} | ({} if given is None else {"httpPort": given})
    assert BrokerSettings.load(None, options, {})[0].http_port_wanted == wanted


def test_nameservers_are_a_list() -> None:
    """Blanks and repetitions do not matter."""
    settings = BrokerSettings(namesrv_addr=" a:1 ; b:2;a:1;", broker_ip1="127.0.0.1")
    assert settings.nameservers == ("a:1", "b:2")
    assert BrokerSettings(broker_ip1="127.0.0.1").nameservers == ()


def test_the_local_address_can_be_dialled() -> None:
    """It is an address, never the wildcard that no client can use."""
    address = local_address()
    assert address and address not in ("0.0.0.0", "::")


def test_an_address_nobody_has_is_an_error_of_the_setting() -> None:
    """A name is looked up when the broker starts; the message names the key, not the resolver."""
    assert record_host("127.0.0.1", 10911) == ("127.0.0.1", 10911)
    with pytest.raises(SettingsError, match="brokerIP1 cannot be 'not a host'"):
        record_host("not a host", 10911)


@pytest.mark.parametrize("key", ["storePathRootDir", "storePathCommitLog"])
def test_the_home_of_nobody_is_no_path(key: str) -> None:
    """A misspelt user is named as what it is."""
    with pytest.raises(SettingsError, match=rf"{key} cannot be '~nobody-here/x' .*home of a user"):
        BrokerSettings.load(None, {key: "~nobody-here/x"}, {})


def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a user of whom this machine knows no home, as in containers."""
    monkeypatch.setattr("os.path.expanduser", lambda path: path)


def test_a_store_needs_no_home_where_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does the line of the log that says what was chosen."""
    no_home(monkeypatch)
    settings, _ = BrokerSettings.load(None, {"storePathRootDir": str(tmp_path)}, {})
    assert settings.chosen()["storePathRootDir"] == str(tmp_path)


def test_without_a_home_the_store_s_folder_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not made in the folder that the process happens to run in."""
    no_home(monkeypatch)
    with pytest.raises(
        SettingsError, match=r"^storePathRootDir: ~/store is in the home .*HOME, or"
    ):
        BrokerSettings.load(None, {}, {})
