"""Settings of clients, frozen, with the defaults of RocketMQ's Java client 5.5.0."""

from dataclasses import dataclass, field, fields
from types import GenericAlias, UnionType
from typing import Any, Final, TypeVar

from aerobee.client.errors import (
    MS_MAX,
    InvalidSetting,
    out_of_range,
    what_is_wrong,
    wrong_argument,
)
from aerobee.client.received import BODY_BYTES_MAX, UNPACKED_BYTES_MAX
from aerobee.remoting.message.compression import CODECS, need_codec
from aerobee.remoting.net.access.credentials import SessionCredentials
from aerobee.remoting.net.tls import TlsClientSettings
from aerobee.remoting.words import AUTO_CREATE_TOPIC

S = TypeVar("S")

BATCH_MESSAGES: Final = 32
"""What a pull asks of a broker that knows no full replies."""
FULL_REPLY_MESSAGES: Final = 256  # fullReplyMessagesMax of Aerobee's brokers
_BATCH_MAX: Final = 1_024
_BYTES_MAX: Final = 2**62
_RANGES: Final[dict[str, tuple[int, int]]] = {  # all other numbers begin at 1
    "batch": (1, _BATCH_MAX),
    "broker_busy_delay_ms": (0, MS_MAX),
    "check_concurrency": (1, 1_000),
    "checks_waiting_max": (1, 1_000_000),
    "compress_over_bytes": (0, _BYTES_MAX),
    "compression_level": (0, 9),
    "concurrency": (1, 1_000),
    "delay_level_max": (0, MS_MAX),
    "flow_control_delay_ms": (0, MS_MAX),
    "handover_timeout_ms": (0, MS_MAX),
    "max_reconsume_times": (-1, MS_MAX),
    "queue_messages_max": (1, 65_535),
    "queue_span_max": (1, 65_535),
    "rebalance_gap_ms": (0, MS_MAX),
    "redeliver_delay_ms": (0, MS_MAX),
    "retries_max": (0, MS_MAX),
    "suspend_ms": (0, MS_MAX),
    "takeover_delay_ms": (0, MS_MAX),
    "topic_messages_max": (1, 6_553_500),
    "trace_batch_messages": (1, 20),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """What all the clients of one process that share an instance agree on (ClientConfig.java).

    `instance_name` makes the client id "ip@instance_name[@unit_name]" by which brokers know a
    member of a group; left empty it is "pid#nanoseconds", and a second consumer of the same group
    in one process gets an instance of its own.
    """

    client_ip: str = ""  # empty: the address that leads to the nameserver
    instance_name: str = ""
    unit_name: str = ""
    api_timeout_ms: int = 3_000  # mqClientApiTimeout: routes, heartbeats, member lists
    connect_timeout_ms: int = 3_000
    offset_timeout_ms: int = 5_000  # queries and awaited commits of offsets
    find_timeout_ms: int = 6_000  # of looking for messages, at all brokers together
    namesrv_interval_ms: int = 120_000  # between questions to an HTTP address server
    route_interval_ms: int = 30_000  # pollNameServerInterval
    heartbeat_interval_ms: int = 30_000  # heartbeatBrokerInterval
    offsets_interval_ms: int = 5_000  # persistConsumerOffsetInterval
    rebalance_interval_ms: int = 20_000  # RebalanceService.waitInterval
    rebalance_gap_ms: int = 1_000  # RebalanceService.minInterval: at most ten rounds in it
    takeover_delay_ms: int = 100  # lets the member that loses a queue store its offset first
    frame_bytes_max: int = 64 * 1024 * 1024  # of a reply; 256 KiB pulls stay far below
    tls: TlsClientSettings | None = None  # None: plain TCP
    credentials: SessionCredentials | None = None  # AclClientRPCHook; None: nothing is signed
    enable_trace: bool = False  # enableTrace: producers and consumers write RocketMQ's traces
    trace_topic: str = ""  # traceTopic; empty: RMQ_SYS_TRACE_TOPIC
    trace_batch_messages: int = 10  # traceMsgBatchNum: in one trace message, 20 at most
    access_channel: str = "LOCAL"  # or "CLOUD": a trace topic for each region

    def __post_init__(self) -> None:
        _check_kinds(self)
        if self.access_channel not in ("LOCAL", "CLOUD"):
            raise InvalidSetting(
                f"access_channel={self.access_channel!r}: allowed are LOCAL, CLOUD"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySettings:
    """Which brokers sends avoid for a while, by how long they took (MQFaultStrategy.java).

    A send that took `slow_ms[n]` or longer makes its broker the last choice for `avoid_ms[n]`; a
    failed one counts as 10 s. Where all are avoided, those that failed come last until they serve
    again; `detector` asks them every few seconds, and their answer counts as well.
    """

    enabled: bool = False  # sendLatencyEnable
    slow_ms: tuple[int, ...] = (50, 100, 550, 1_800, 3_000, 5_000, 15_000)  # latencyMax
    avoid_ms: tuple[int, ...] = (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000)  # notAvailableDuration
    detector: bool = False  # startDetectorEnable
    detect_interval_ms: int = 2_000  # detectInterval: between two questions to one broker
    detect_timeout_ms: int = 200  # detectTimeout

    def __post_init__(self) -> None:
        _check_kinds(self)
        if len(self.slow_ms) != len(self.avoid_ms) or not self.slow_ms:
            raise InvalidSetting(
                f"slow_ms has {len(self.slow_ms)} values, avoid_ms {len(self.avoid_ms)}: each of"
                " the first needs one of the second"
            )
        if list(self.slow_ms) != sorted(self.slow_ms) or min(*self.slow_ms, *self.avoid_ms) < 0:
            raise InvalidSetting("slow_ms must rise, and neither it nor avoid_ms go below 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How one producer sends (DefaultMQProducer.java).

        Producer(namesrv="127.0.0.1:9876", settings=ProducerSettings(send_timeout_ms=10_000))

    `retries_max` counts the attempts that a broker may have got. Those that find no connection, or
    no broker registered, are made again until the time is up, after 50 ms, 100 ... 800; 0 switches
    that off as well.
    """

    send_timeout_ms: int = 3_000  # for all attempts of one send together
    retries_max: int = 2  # after the first attempt; none for one-way and chosen queues
    retry_other_broker_when_not_stored: bool = False  # retryAnotherBrokerWhenNotStoreOK
    body_bytes_max: int = 4 * 1024 * 1024
    compress_over_bytes: int = 4 * 1024  # compressMsgBodyOverHowmuch; batches never
    compression: str = "zlib"  # or "lz4", "zstd": brokers and consumers from 5.0 on
    compression_level: int = 5
    delay_level_max: int = 18  # of the brokers' messageDelayLevel; they take more for the last one
    create_topic_key: str = AUTO_CREATE_TOPIC  # the topic whose brokers create unknown ones
    default_topic_queues: int = 4  # queues of a topic that a send creates
    send_soon_bytes_max: int = 64 * 1024 * 1024  # of messages without an outcome, of send_soon
    latency: LatencySettings = field(default_factory=LatencySettings)

    def __post_init__(self) -> None:
        _check_kinds(self)
        if self.compression not in CODECS:
            raise InvalidSetting(
                f"compression={self.compression!r}: allowed are {', '.join(CODECS)}"
            )
        need_codec(self.compression)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings(ProducerSettings):
    """How a transaction producer sends, and answers checks (TransactionMQProducer.java).

    `topics` are those of which checks are to reach this process before it has sent anything itself:
    what an earlier life of it has left open. Without one it is known, as Java's producers are, to
    the brokers that create topics.
    """

    topics: tuple[str, ...] = ()
    check_concurrency: int = 8  # Java: 1; one that hangs holds up no other
    check_timeout_ms: int = 30_000  # then the answer is that nobody knows
    checks_waiting_max: int = 2_000  # checkRequestHoldMax; brokers ask again for what is dropped
    checks_waiting_bytes_max: int = 64 * 1024 * 1024  # of the bodies of those that wait


@dataclass(frozen=True, slots=True, kw_only=True)
class PullSettings:
    """How queues are fetched: limits per queue and delays (DefaultMQPushConsumerImpl.java).

    Without `batch_messages` a pull brings 32 messages from RocketMQ's brokers, and from Aerobee's
    as many as one reply holds: 256 KiB, up to 256 messages. Where a queue may hold fewer than that
    it is 32 of either.
    """

    batch_messages: int | None = None  # pullBatchSize
    batch_bytes: int = 256 * 1024  # pullBatchSizeInBytes
    body_bytes_max: int = BODY_BYTES_MAX  # a body that unpacks to more cannot be read
    unpacked_bytes_max: int = UNPACKED_BYTES_MAX  # of one pull; what is behind it is pulled again
    queue_messages_max: int = 1_000  # pullThresholdForQueue: fetched and not yet done
    queue_bytes_max: int = 100 * 1024 * 1024  # pullThresholdSizeForQueue: of unpacked bodies
    queue_span_max: int = 2_000  # consumeConcurrentlyMaxSpan: newest minus oldest offset
    topic_messages_max: int | None = None  # pullThresholdForTopic: shared by its owned queues
    topic_bytes_max: int | None = None  # pullThresholdSizeForTopic
    suspend_ms: int = 15_000  # how long the broker may hold a pull
    timeout_ms: int = 30_000  # of a pull that may be held
    flow_control_delay_ms: int = 50
    broker_busy_delay_ms: int = 20  # after FLOW_CONTROL (215)
    suspended_delay_ms: int = 1_000
    error_delay_min_ms: int = 50  # doubled with each failure in a row ...
    error_delay_ms: int = 3_000  # ... up to this, which is what Java's client always waits
    idle_max_ms: int = 120_000  # a queue not pulled for so long is dropped and taken again

    def __post_init__(self) -> None:
        _check_kinds(self)

    @property
    def asks_for_full_replies(self) -> bool:
        """Whether a broker may give more than 32 messages at a time, if it can."""
        return self.batch_messages is None and self.queue_messages_max >= FULL_REPLY_MESSAGES


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSettings:
    """How a push consumer consumes (DefaultMQPushConsumer.java).

    `commit` says when offsets are stored: "interval" (every `ClientSettings.offsets_interval_ms`,
    and on the way of pulls) or "each", after every handler, so that after a crash only what lies
    behind the oldest running handler comes again.
    """

    concurrency: int = 20  # handlers that run at a time (consumeThreadMax)
    batch: int | None = None  # consumeMessageBatchMaxSize: handlers get lists; None: one message
    consume_timeout_ms: int = 15 * 60_000  # a message in its handler's hands is then given back
    max_reconsume_times: int = -1  # then the dead letters; -1: 16, and never in orderly consumption
    send_back_timeout_ms: int = 5_000
    redeliver_delay_ms: int = 5_000  # until a message that no broker took is handled here again
    handover_timeout_ms: int = 10_000  # how long a queue that is given up waits for its handlers
    start_timeout_ms: int | None = None  # then a start without an answer fails; None: it tries on
    client_rebalance: bool = True  # False: brokers share the queues, except of ordered consumption
    commit: str = "interval"
    suspend_ms: int = 1_000  # suspendCurrentQueueTimeMillis: an ordered queue after a failure
    continuous_ms_max: int = 60_000  # then an ordered queue lets others have its worker
    lock_interval_ms: int = 20_000  # between renewals of the locks of ordered queues
    lock_trusted_ms: int = 30_000  # brokers keep a lock for 60 s after they gave or renewed it
    lock_retry_ms: int = 3_000  # after a broker refused a lock, or did not answer
    offsets_folder: str = ""  # of broadcasting: empty for ~/.rocketmq_offsets, as RocketMQ's
    pull: PullSettings = field(default_factory=PullSettings)

    def __post_init__(self) -> None:
        _check_kinds(self)
        if self.commit not in ("interval", "each"):
            raise InvalidSetting(f"commit={self.commit!r}: allowed are interval, each")
        if (most := self.pull.batch_messages or 1) > _BATCH_MAX:
            raise InvalidSetting(out_of_range("pull.batch_messages", most, 1, _BATCH_MAX))


@dataclass(frozen=True, slots=True, kw_only=True)
class LitePullSettings:
    """How a lite pull consumer fetches (DefaultLitePullConsumer.java)."""

    auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    poll_timeout_ms: int = 5_000
    fetched_messages_max: int = 10_000  # pullThresholdForAll: fetched and not yet polled
    fetched_bytes_max: int = 256 * 1024 * 1024  # of their unpacked bodies, of all queues together
    handover_timeout_ms: int = 10_000  # how long a queue that is given up waits for its batch
    start_timeout_ms: int | None = None  # then a start without an answer fails; None: it tries on
    offsets_folder: str = ""  # of broadcasting: empty for ~/.rocketmq_offsets, as RocketMQ's
    pull: PullSettings = field(
        default_factory=lambda: PullSettings(
            batch_bytes=2**31 - 1,
            suspend_ms=20_000,
        )
    )

    def __post_init__(self) -> None:
        _check_kinds(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullConsumerSettings:
    """How the plain pull consumer pulls (DefaultMQPullConsumer.java)."""

    batch_messages: int = 32
    batch_bytes: int = 2**31 - 1
    body_bytes_max: int = BODY_BYTES_MAX  # a body that unpacks to more cannot be read
    unpacked_bytes_max: int = UNPACKED_BYTES_MAX  # of one pull; the rest comes with the next one
    timeout_ms: int = 10_000  # consumerPullTimeoutMillis: of a pull that is answered at once
    suspend_ms: int = 20_000  # brokerSuspendMaxTimeMillis: how long the broker may hold one
    suspend_timeout_ms: int = 30_000  # consumerTimeoutMillisWhenSuspend: of one that may be held

    def __post_init__(self) -> None:
        _check_kinds(self)
        if self.suspend_timeout_ms < self.suspend_ms:
            raise InvalidSetting(
                f"suspend_timeout_ms={self.suspend_timeout_ms}: it must not be below"
                f" suspend_ms={self.suspend_ms}"
            )


def given(name: str, settings: S | None, kind: type[S]) -> S:
    """Return the settings that are given, or the defaults; raises InvalidUse for other ones."""
    if settings is None:
        return kind()
    if not isinstance(settings, kind):
        raise wrong_argument(name, f"a {kind.__name__}", settings)
    return settings


def _check_kinds(settings: Any) -> None:
    """Raise InvalidSetting for a value of another kind than its field has, or out of its range."""
    for each in fields(settings):
        kind, value = each.type, getattr(settings, each.name)
        if isinstance(kind, GenericAlias):
            _check_elements(each.name, kind.__args__[0], value)
        elif isinstance(kind, type | UnionType):
            number = isinstance(value, int) and kind is not bool
            if not isinstance(value, kind) or (number and isinstance(value, bool)):
                wanted = kind.__name__ if isinstance(kind, type) else str(kind)
                wanted = wanted.replace(" | ", " or ")
                raise InvalidSetting(what_is_wrong(each.name, wanted, value))
            if number:
                _check_number(each.name, value)


def _check_number(name: str, value: Any) -> None:
    """Raise InvalidSetting for a number that is too small, or too large."""
    usual_max = _BYTES_MAX if "bytes" in name else MS_MAX
    least, most = _RANGES.get(name, (1, usual_max))
    if not least <= value <= most:
        raise InvalidSetting(out_of_range(name, value, least, most))


def _check_elements(name: str, kind: type, values: Any) -> None:
    """Raise InvalidSetting for what is no tuple, or has an element of another kind."""
    if not isinstance(values, tuple) or any(type(value) is not kind for value in values):
        raise InvalidSetting(what_is_wrong(name, f"a tuple of {kind.__name__}", values))
