"""Everything that can be set about a nameserver, under RocketMQ's keys (NamesrvConfig.java)."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from aerobee.remoting.config.console_keys import ConsoleKeys
from aerobee.remoting.config.promises import Promise
from aerobee.remoting.config.settings import GivenPath, below_home
from aerobee.remoting.net.access.keys import AccessKeys
from aerobee.remoting.net.admin_networks import check_networks
from aerobee.remoting.net.settings import NetSettings

_PROMISES: Final = {
    "enableControllerInNamesrv": Promise(
        "there is no controller, nobody would choose another master", "set it to false"
    ),
    "tls.config.file": Promise(
        "no second file is read, so its TLS would be missing", "put its lines into this file", ("",)
    ),
}


CHANGEABLE: Final = frozenset(
    {
        "enableAllTopicList",
        "enableTopicList",
        "orderMessageEnable",
        "returnOrderTopicConfigToBroker",
        "supportActingMaster",
    }
)
"""What code 318 may change: switches that every request looks at, and none that names a place."""


class NamesrvSettings(ConsoleKeys, AccessKeys, NetSettings):
    """Defaults are RocketMQ's; keys of RocketMQ that have no field here have no effect."""

    promises = _PROMISES

    listen_port: int = Field(default=9876, ge=0, le=65535)  # 0 takes a free one
    kv_config_path: GivenPath = Field(default_factory=lambda: below_home("~/namesrv/kvConfig.json"))
    kv_bytes_max: int = Field(default=8 << 20, ge=1 << 10, le=15 << 20)  # must fit one reply
    brokers_max: int = Field(default=10_000, ge=1)
    topics_max: int = Field(default=1_000_000, ge=1)
    # what brokers have of topics: each counts on each broker, and takes about 300 bytes
    route_entries_max: int = Field(default=2_000_000, ge=1)
    scan_interval_ms: int = Field(
        default=5_000, ge=10, le=3_600_000, validation_alias="scanNotActiveBrokerInterval"
    )
    order_message_enable: bool = False  # put the ORDER_TOPIC_CONFIG of a topic into its route
    return_order_topic_config_to_broker: bool = True
    support_acting_master: bool = False
    delete_topic_with_broker_registration: bool = False
    enable_all_topic_list: bool = True
    enable_topic_list: bool = True
    need_wait_for_service: bool = False  # answer no routes for the first while after the start
    wait_for_service_s: int = Field(
        default=45, ge=0, le=3600, validation_alias="waitSecondsForService"
    )
    # ours: "10.0.0.0/8;fd00::/8", beside this machine, see remoting/net/admin_networks.py
    admin_allowed_networks: Annotated[str, AfterValidator(check_networks)] = ""
    routes_authentication_enabled: bool = False  # ours: routes (105, 106) are asked for, too
    console_enabled: bool = False  # ours: the web console in this process (console/README.md)
