"""Everything that can be set about a broker, under RocketMQ's keys.

Defaults are RocketMQ's (BrokerConfig, MessageStoreConfig, NettyServerConfig) unless a line says
otherwise. Keys of RocketMQ that have no field here are accepted, and a warning says that they
have no effect.
"""

import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, field_validator

from aerobee.broker.features.access.keys import BrokerAccessKeys
from aerobee.broker.features.compaction.keys import CompactionKeys
from aerobee.broker.features.dedup.keys import DedupKeys
from aerobee.broker.features.delays.keys import DelayKeys
from aerobee.broker.features.index.keys import IndexKeys
from aerobee.broker.features.light_queues.keys import LightQueueKeys
from aerobee.broker.features.metrics.keys import MetricsKeys
from aerobee.broker.features.replies.keys import ReplyKeys
from aerobee.broker.features.sql92.keys import Sql92Keys
from aerobee.broker.features.timers.keys import TimerKeys
from aerobee.broker.features.topic_retention.keys import TopicRetentionKeys
from aerobee.broker.features.transactions.keys import TransactionKeys
from aerobee.broker.settings.promises import PROMISES
from aerobee.broker.settings.retention_keys import RetentionKeys
from aerobee.broker.settings.values import Milliseconds
from aerobee.remoting.config.settings import AtStart, GivenPath, Guarded, below_home
from aerobee.remoting.message.layout import ENTRY_FIELDS
from aerobee.remoting.net.admin_networks import check_networks
from aerobee.remoting.net.settings import CallingSettings
from aerobee.remoting.words import TRACE_TOPIC
from aerobee.storage.settings import StoreSettings

_NAME: Final = re.compile(r"(?!\.+$)[%|a-zA-Z0-9_.-]{1,127}")
_REGION_CHARS_MAX: Final = 127
TRANSFER_COUNT: Final = 32
"""Messages of one pull, by default; who sets less means all clients."""


def local_address() -> str:
    """Return the address by which other machines reach this one, or 127.0.0.1 where none do.

    Asks the routing table which source address a packet to the outside would carry; nothing is
    sent. RocketMQ takes the first suitable interface instead (NetworkUtil.getLocalAddress).
    """
    for family, outside in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((outside, 9))
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return "127.0.0.1"


def _port_or_off(value: Any) -> Any:
    words = {"off": -1, "": None}  # None prints as "", and what is printed can be loaded
    return words.get(value.strip().lower(), value) if isinstance(value, str) else value


def _or_none(value: Any) -> Any:
    return None if isinstance(value, str) and not value.strip() else value


Queues = Annotated[int, Field(ge=1, le=32767)]


class BrokerSettings(
    BrokerAccessKeys,
    CompactionKeys,
    DedupKeys,
    DelayKeys,
    IndexKeys,
    LightQueueKeys,
    MetricsKeys,
    ReplyKeys,
    Sql92Keys,
    TimerKeys,
    TopicRetentionKeys,
    TransactionKeys,
    RetentionKeys,
    CallingSettings,
):
    """Settings of one broker process; frozen, a change at run time makes a new value.

    What is not marked `AtStart` works at once when it is changed by code 25; who keeps a copy of it
    follows `Live.on_change`. What is `Guarded` is taken from `adminAllowedNetworks` alone. The keys
    of a feature stand in `keys.py` of its room.
    """

    promises = PROMISES
    variables: ClassVar[Mapping[str, str]] = {"NAMESRV_ADDR": "namesrvAddr"}

    # Who and where
    broker_cluster_name: AtStart[Guarded[str]] = Field(default="DefaultCluster", min_length=1)
    # RocketMQ: the host's name
    broker_name: AtStart[Guarded[str]] = Field(default="broker-a", min_length=1)
    broker_id: AtStart[Guarded[int]] = Field(default=0, ge=0)  # 0 is the master
    broker_role: AtStart[Guarded[Literal["ASYNC_MASTER", "SYNC_MASTER", "SLAVE"]]] = "ASYNC_MASTER"
    # what clients are told to dial
    broker_ip1: AtStart[Guarded[str]] = Field(
        default_factory=local_address, min_length=1, validation_alias="brokerIP1"
    )
    # "" is brokerIP1
    broker_ip2: AtStart[Guarded[str]] = Field(default="", validation_alias="brokerIP2")
    # 0 takes a free one; not 1 and 2
    listen_port: AtStart[Guarded[int]] = Field(default=10911, ge=0, le=65535)
    ha_listen_port: AtStart[Guarded[int]] = Field(default=10912, ge=0, le=65535)
    namesrv_addr: Guarded[str] = ""  # "host:port;host:port"; "" serves without a nameserver
    broker_permission: int = Field(default=6, ge=0, le=7)

    # one read of 256 KiB holds 180 messages of 1 KiB, 500 of 128 bytes: each read is one turn
    frames_per_turn_max: AtStart[int] = Field(default=1024, ge=1)

    # Topics and groups
    auto_create_topic_enable: bool = True
    default_topic_queue_nums: AtStart[Queues] = 8
    cluster_topic_enable: AtStart[bool] = True
    broker_topic_enable: AtStart[bool] = True
    auto_create_subscription_group: bool = True
    enable_create_sys_group: bool = True
    enable_mixed_message_type: bool = False
    validate_system_topic_when_update_topic: Guarded[bool] = True  # false: they can be deleted
    clear_retry_topic_when_delete_topic: bool = True
    trace_topic_enable: AtStart[bool] = False
    msg_trace_topic_name: AtStart[str] = TRACE_TOPIC
    revive_queue_num: AtStart[Queues] = 8
    topics_max: int = Field(default=200_000, ge=100)  # ours: what clients may make one by one
    groups_max: int = Field(default=200_000, ge=100)  # ours
    offsets_max: int = Field(default=2_000_000, ge=100)  # ours: committed, of all groups' queues

    # Sending
    max_message_size: AtStart[int] = Field(default=4 << 20, ge=1, le=1 << 30)  # bytes of a body
    start_accept_send_request_time_stamp: int = Field(default=0, ge=0)
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    wait_time_mills_in_send_queue: Milliseconds = 200
    os_page_cache_busy_time_out_mills: Milliseconds = 1000
    broker_fast_failure_enable: bool = True
    compiled_fast_path: bool = True  # ours: where it was built, see compiled/choice.py

    # Pulling
    long_polling_enable: bool = True
    short_polling_time_mills: Milliseconds = 1000
    lite_pull_message_enable: bool = True
    max_transfer_bytes_on_message_in_memory: int = Field(default=256 << 10, ge=1)
    max_transfer_count_on_message_in_memory: int = Field(default=TRANSFER_COUNT, ge=1)
    max_transfer_bytes_on_message_in_disk: int = Field(default=64 << 10, ge=1)
    max_transfer_count_on_message_in_disk: int = Field(default=8, ge=1)
    # ours: of pulls that ask for a full reply; 0: what holds for all others
    full_reply_messages_max: int = Field(default=256, ge=0, le=256)
    access_message_in_memory_max_ratio: int = Field(default=40, ge=1, le=100)
    # ours: pulls that wait for a message
    held_pulls_max: AtStart[int] = Field(default=200_000, ge=1)
    held_pulls_per_connection_max: AtStart[int] = Field(default=20_000, ge=1)  # ours
    cold_read_threads: AtStart[int] = Field(default=4, ge=1, le=64)  # ours: wait for the disk
    cold_reads_max: int = Field(default=8192, ge=16)  # ours: that wait for those threads
    cold_read_bytes_max: int = Field(default=64 << 20, ge=1 << 20)  # ours: read at once
    reject_pull_consumer_enable: bool = False
    slave_read_enable: bool = False
    enable_broadcast_offset_store: bool = True

    # Members and offsets
    channel_expired_timeout: Milliseconds = 120_000
    notify_consumer_ids_changed_enable: bool = True
    groups_per_heartbeat_max: int = Field(default=1000, ge=1)  # ours
    subscriptions_per_group_max: int = Field(default=1000, ge=1)  # ours
    client_id_chars_max: int = Field(default=1024, ge=1)  # ours
    # ours: clients in groups, all together
    memberships_max: AtStart[int] = Field(default=1_000_000, ge=1)
    # ours: of all clients
    subscription_bytes_max: AtStart[int] = Field(default=256 << 20, ge=1 << 10)
    handover_wait_millis: int = Field(default=2000, ge=0, le=60_000)  # ours: 0 holds nothing
    # ours: how long queues rest so that foreign clients finish, 0 lets nobody; at 2 s handlers of
    # up to 1 s have nothing twice, and those of 5 s make no queue rest for longer; five times that
    # where all are seen to be quick, 500 ms where one is seen at work for 3/5 of it (HANDOVER.md)
    handover_drain_millis: int = Field(default=2000, ge=0, le=60_000)
    # ours: of all groups; locks likewise
    owned_queues_max: AtStart[int] = Field(default=500_000, ge=1)
    default_message_request_mode: str = "PULL"
    server_load_balancer_enable: bool = True  # false: who asks for its share gets all queues
    use_server_side_reset_offset: bool = True  # false: consumers are told (220), and must be online
    flush_consumer_offset_interval: Milliseconds = 5000
    consumer_offset_update_version_step: int = Field(default=500, ge=1)

    # Nameservers
    register_name_server_period: Milliseconds = 30_000  # used between 10 s and 60 s
    register_broker_timeout_mills: Milliseconds = 24_000
    force_register: bool = True  # false: ask first whether the nameserver's version is old
    compressed_register: bool = False
    refuse_name_in_use: AtStart[Guarded[bool]] = (
        False  # ours: true starts no second broker of one name
    )
    announce_timeout_ms: Milliseconds = 1000  # ours: how long a new topic waits for nameservers

    # Store
    store_path_root_dir: AtStart[Guarded[GivenPath]] = Field(
        default_factory=lambda: below_home("~/store")
    )
    store_path_commit_log: AtStart[Guarded[Annotated[Path | None, BeforeValidator(_or_none)]]] = (
        None  # None is commitlog/ under the root
    )
    mapped_file_size_commit_log: AtStart[Guarded[int]] = Field(
        default=1 << 30, ge=64 << 10, le=(1 << 31) - 1
    )
    mapped_file_size_consume_queue: AtStart[Guarded[int]] = Field(
        default=6_000_000, ge=20, le=(1 << 31) - 1
    )
    flush_disk_type: AtStart[Guarded[Literal["ASYNC_FLUSH", "SYNC_FLUSH"]]] = "ASYNC_FLUSH"
    flush_interval_commit_log: AtStart[Milliseconds] = 500
    flush_interval_consume_queue: AtStart[Milliseconds] = 1000
    # ours: of disk space ahead of the log's end; ASYNC_FLUSH takes more where there is room
    prepared_bytes: AtStart[int] = Field(default=64 << 20, ge=4 << 10)
    # ours: of the log stay in memory, and what groups that pull want, see storage/README.md; 0: all
    log_cache_bytes: AtStart[int] = Field(default=1536 << 20, ge=0)
    helper_process: AtStart[bool] = True  # ours: whether another process prepares them
    sync_flush_timeout: AtStart[Milliseconds] = 5000

    # Operation
    http_host: AtStart[Guarded[str]] = "127.0.0.1"
    # None is listenPort + 2, -1 or "off" none, 0 a free one
    http_port: AtStart[Guarded[Annotated[int | None, BeforeValidator(_port_or_off)]]] = Field(
        default=None, ge=-1, le=65535
    )
    # ours: serves what operators change, and nobody else does then; None: the others do; 0: a free
    # one; "" is bindAddress
    admin_port: AtStart[Guarded[Annotated[int | None, BeforeValidator(_or_none)]]] = Field(
        default=None, ge=0, le=65535
    )
    admin_bind_address: AtStart[Guarded[str]] = ""
    admin_allowed_networks: Guarded[str] = ""  # ours: "10.0.0.0/8;fd00::/8", see admin_networks.py
    config_black_list: str = "configBlackList;brokerConfigPath"

    @field_validator("broker_name", "broker_cluster_name", "msg_trace_topic_name")
    @classmethod
    def _a_topic_too(cls, value: str) -> str:
        """Each names a system topic and its folder; RocketMQ's brokerName is a host's name."""
        if not _NAME.fullmatch(value):
            raise ValueError("allowed: 1 to 127 of a-z A-Z 0-9 % | _ - . and not dots alone")
        return value

    @field_validator("region_id")
    @classmethod
    def _in_a_property(cls, value: str) -> str:
        """Every message carries it among its properties, which have separators and a limit."""
        if len(value) > _REGION_CHARS_MAX or not value.isprintable():
            raise ValueError(f"allowed: up to {_REGION_CHARS_MAX} characters that can be printed")
        return value

    @field_validator("listen_port")
    @classmethod
    def _room_for_the_fast_port(cls, value: int) -> int:
        if value in (1, 2):
            raise ValueError(
                "allowed: 3 to 65535, since the broker serves on listenPort - 2 as well, or 0 for"
                " any free one"
            )
        return value

    @field_validator("broker_id", "broker_role")
    @classmethod
    def _a_master(cls, value: int | str) -> int | str:
        """A slave would split the truth in two, a synchronous master promise a second copy."""
        if value == "SYNC_MASTER":
            raise ValueError(
                "there is no replication yet, no slave has a message when it is acknowledged; set"
                " it to ASYNC_MASTER, and flushDiskType=SYNC_FLUSH for safety on one disk"
            )
        if value not in (0, "ASYNC_MASTER"):
            raise ValueError("every broker is a master here: brokerId 0, brokerRole ASYNC_MASTER")
        return value

    @field_validator("store_path_commit_log")
    @classmethod
    def _one_folder(cls, value: Path | None) -> Path | None:
        """RocketMQ takes several, joined by commas."""
        if value is not None and "," in str(value):
            raise ValueError("allowed: one folder, the log is not spread over several")
        return value

    @field_validator("default_message_request_mode")
    @classmethod
    def _pulls(cls, value: str) -> str:
        if value.upper() != "PULL":
            raise ValueError("POP is not served yet, allowed: PULL")
        return value.upper()

    @field_validator("namesrv_addr")
    @classmethod
    def _addresses(cls, value: str) -> str:
        for address in filter(None, (part.strip() for part in value.split(";"))):
            host, colon, port = address.rpartition(":")
            if not (host and colon and port.isdecimal() and 0 < int(port) < 65536):
                raise ValueError("allowed: host:port, several joined by ;")
        return value

    @field_validator("admin_allowed_networks")
    @classmethod
    def _networks(cls, value: str) -> str:
        return check_networks(value)

    @field_validator("store_path_root_dir", "store_path_commit_log")
    @classmethod
    def _home(cls, value: Path | None) -> Path | None:
        try:
            return value.expanduser().absolute() if value is not None else None
        except RuntimeError:
            raise ValueError(
                "allowed: a path whose ~ is the home of a user of this machine"
            ) from None

    @property
    def nameservers(self) -> tuple[str, ...]:
        """The nameservers' addresses, each once."""
        parts = (part.strip() for part in self.namesrv_addr.split(";"))
        return tuple(dict.fromkeys(filter(None, parts)))

    @property
    def full_reply_count_max(self) -> int:
        """How many messages a pull may bring that asks for a full reply."""
        count_max = self.max_transfer_count_on_message_in_memory
        if count_max < TRANSFER_COUNT:
            return count_max
        return max(count_max, self.full_reply_messages_max)

    @property
    def store(self) -> StoreSettings:
        """What the message store has to know."""
        return StoreSettings(
            root=self.store_path_root_dir,
            commit_log_dir=self.store_path_commit_log,
            segment_bytes=self.mapped_file_size_commit_log,
            queue_file_entries=-(-self.mapped_file_size_consume_queue // ENTRY_FIELDS.size),
            flush_mode=self.flush_disk_type,
            flush_interval_ms=self.flush_interval_commit_log,
            queue_flush_interval_ms=self.flush_interval_consume_queue,
            sync_flush_timeout_ms=self.sync_flush_timeout,
            message_bytes_max=self.max_message_size,
            window_bytes=self.prepared_bytes,
            log_cache_bytes=self.log_cache_bytes,
            helper_process=self.helper_process,
            transfer_count_memory=self.full_reply_count_max,
            transfer_bytes_memory=self.max_transfer_bytes_on_message_in_memory,
            transfer_count_disk=self.max_transfer_count_on_message_in_disk,
            transfer_bytes_disk=self.max_transfer_bytes_on_message_in_disk,
            memory_ratio=self.access_message_in_memory_max_ratio / 100,
            filter_scan_bytes=self.max_filter_message_size,
            delay_levels_ms=self.delay_levels_ms,
            light_queues=self.light_queues,
            **self.retention_limits,
        )

    @property
    def config_dir(self) -> Path:
        """Where the tables are kept: topics.json, subscriptionGroup.json, consumerOffset.json."""
        return self.store_path_root_dir / "config"

    @property
    def metrics_host(self) -> str:
        """Where RocketMQ's port of metrics is, if there is one."""
        return self.metrics_prom_exporter_host or self.broker_ip1

    @property
    def http_port_wanted(self) -> int | None:
        """The HTTP port to try: 0 for any free one, None for no HTTP at all."""
        if self.http_port is None:
            return self.listen_port + 2 if 0 < self.listen_port < 65534 else 0
        return None if self.http_port < 0 else self.http_port
