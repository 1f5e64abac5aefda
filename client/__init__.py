"""Asyncio clients of a RocketMQ or Aerobee cluster: send, be handed messages, or poll for them.

A name is loaded when it is first used: who only sends does not wait for what consumers are made of.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from aerobee.client.codecs import JSON, MSGPACK, BodyCodec, JsonCodec, MsgpackCodec
    from aerobee.client.errors import (
        BadBody,
        BrokerRefused,
        ClientError,
        InvalidMessage,
        InvalidSetting,
        InvalidUse,
        RouteMissing,
        SendFailed,
        SendQueueFull,
        TransactionNotBegun,
        Unavailable,
    )
    from aerobee.client.finding.found import FoundMessages
    from aerobee.client.group.group_member import MessageModel
    from aerobee.client.group.offsets import ConsumeFrom
    from aerobee.client.group.strategies import (
        Averagely,
        AveragelyByCircle,
        ByConfig,
        ByMachineRoom,
        ConsistentHash,
        MachineRoomNearby,
        Strategy,
    )
    from aerobee.client.handlers import (
        BatchHandler,
        ConsumeResult,
        InvalidHandler,
        Later,
        MessageHandler,
    )
    from aerobee.client.hooks import (
        ConsumeContext,
        ConsumeHook,
        EndTransactionContext,
        EndTransactionHook,
        FilterContext,
        FilterHook,
        RecallContext,
        RecallHook,
        SendContext,
        SendHook,
    )
    from aerobee.client.instance.stopping import run
    from aerobee.client.message import Message, MessageQueue, SendResult, SendStatus
    from aerobee.client.plain.pull_consumer import PullConsumer
    from aerobee.client.plain.traces import MessageTraces, read_traces
    from aerobee.client.poll.lite_pull_consumer import LitePullConsumer
    from aerobee.client.pulls.process_queue import QueueStatistics
    from aerobee.client.pulls.puller import PullResult
    from aerobee.client.pulls.raw import PullStatus
    from aerobee.client.pulls.samples import StatisticSample
    from aerobee.client.pulls.statistics import TopicStatistics
    from aerobee.client.push.handling import HandlerStatistics
    from aerobee.client.push.push_consumer import PushConsumer, PushStatistics
    from aerobee.client.received import ReceivedMessage
    from aerobee.client.requests.errors import (
        NoReply,
        ReplierRefused,
        ReplyConnectionLost,
        ReplyNotTaken,
    )
    from aerobee.client.requests.replying import is_request, reply_to
    from aerobee.client.requests.request_producer import RequestProducer
    from aerobee.client.sending.fast import SendHandle
    from aerobee.client.sending.producer import Producer
    from aerobee.client.sending.selectors import QueueSelector, at_random, by_key
    from aerobee.client.settings import (
        ClientSettings,
        LatencySettings,
        LitePullSettings,
        ProducerSettings,
        PullConsumerSettings,
        PullSettings,
        PushSettings,
        TransactionSettings,
    )
    from aerobee.client.transactions.half import HalfMessage, Transaction
    from aerobee.client.transactions.listener import TransactionListener, TransactionState
    from aerobee.client.transactions.producer import TransactionProducer
    from aerobee.remoting.errors import AerobeeError, CallTimedOut, ConnectionLost, NotConnected
    from aerobee.remoting.net.access.credentials import SessionCredentials
    from aerobee.remoting.net.addresses import BadAddress
    from aerobee.remoting.net.tls import TlsClientSettings

__all__ = [
    "JSON",
    "MSGPACK",
    "AerobeeError",
    "Averagely",
    "AveragelyByCircle",
    "BadAddress",
    "BadBody",
    "BatchHandler",
    "BodyCodec",
    "BrokerRefused",
    "ByConfig",
    "ByMachineRoom",
    "CallTimedOut",
    "ClientError",
    "ClientSettings",
    "ConnectionLost",
    "ConsistentHash",
    "ConsumeContext",
    "ConsumeFrom",
    "ConsumeHook",
    "ConsumeResult",
    "EndTransactionContext",
    "EndTransactionHook",
    "FilterContext",
    "FilterHook",
    "FoundMessages",
    "HalfMessage",
    "HandlerStatistics",
    "InvalidHandler",
    "InvalidMessage",
    "InvalidSetting",
    "InvalidUse",
    "JsonCodec",
    "LatencySettings",
    "Later",
    "LitePullConsumer",
    "LitePullSettings",
    "MachineRoomNearby",
    "Message",
    "MessageHandler",
    "MessageModel",
    "MessageQueue",
    "MessageTraces",
    "MsgpackCodec",
    "NoReply",
    "NotConnected",
    "Producer",
    "ProducerSettings",
    "PullConsumer",
    "PullConsumerSettings",
    "PullResult",
    "PullSettings",
    "PullStatus",
    "PushConsumer",
    "PushSettings",
    "PushStatistics",
    "QueueSelector",
    "QueueStatistics",
    "RecallContext",
    "RecallHook",
    "ReceivedMessage",
    "ReplierRefused",
    "ReplyConnectionLost",
    "ReplyNotTaken",
    "RequestProducer",
    "RouteMissing",
    "SendContext",
    "SendFailed",
    "SendHandle",
    "SendHook",
    "SendQueueFull",
    "SendResult",
    "SendStatus",
    "SessionCredentials",
    "StatisticSample",
    "Strategy",
    "TlsClientSettings",
    "TopicStatistics",
    "Transaction",
    "TransactionListener",
    "TransactionNotBegun",
    "TransactionProducer",
    "TransactionSettings",
    "TransactionState",
    "Unavailable",
    "at_random",
    "by_key",
    "is_request",
    "read_traces",
    "reply_to",
    "run",
]

_HOMES: Final = {
    "aerobee.client.codecs": ("BodyCodec", "JSON", "JsonCodec", "MSGPACK", "MsgpackCodec"),
    "aerobee.client.errors": (
        "BadBody",
        "BrokerRefused",
        "ClientError",
        "InvalidMessage",
        "InvalidSetting",
        "InvalidUse",
        "RouteMissing",
        "SendFailed",
        "SendQueueFull",
        "TransactionNotBegun",
        "Unavailable",
    ),
    "aerobee.client.finding.found": ("FoundMessages",),
    "aerobee.client.group.group_member": ("MessageModel",),
    "aerobee.client.group.offsets": ("ConsumeFrom",),
    "aerobee.client.group.strategies": (
        "Averagely",
        "AveragelyByCircle",
        "ByConfig",
        "ByMachineRoom",
        "ConsistentHash",
        "MachineRoomNearby",
        "Strategy",
    ),
    "aerobee.client.handlers": (
        "BatchHandler",
        "ConsumeResult",
        "InvalidHandler",
        "Later",
        "MessageHandler",
    ),
    "aerobee.client.hooks": (
        "ConsumeContext",
        "ConsumeHook",
        "EndTransactionContext",
        "EndTransactionHook",
        "FilterContext",
        "FilterHook",
        "RecallContext",
        "RecallHook",
        "SendContext",
        "SendHook",
    ),
    "aerobee.client.instance.stopping": ("run",),
    "aerobee.client.message": ("Message", "MessageQueue", "SendResult", "SendStatus"),
    "aerobee.client.plain.pull_consumer": ("PullConsumer",),
    "aerobee.client.plain.traces": ("MessageTraces", "read_traces"),
    "aerobee.client.poll.lite_pull_consumer": ("LitePullConsumer",),
    "aerobee.client.pulls.process_queue": ("QueueStatistics",),
    "aerobee.client.pulls.puller": ("PullResult",),
    "aerobee.client.pulls.raw": ("PullStatus",),
    "aerobee.client.pulls.samples": ("StatisticSample",),
    "aerobee.client.pulls.statistics": ("TopicStatistics",),
    "aerobee.client.push.handling": ("HandlerStatistics",),
    "aerobee.client.push.push_consumer": ("PushConsumer", "PushStatistics"),
    "aerobee.client.received": ("ReceivedMessage",),
    "aerobee.client.requests.errors": (
        "NoReply",
        "ReplierRefused",
        "ReplyConnectionLost",
        "ReplyNotTaken",
    ),
    "aerobee.client.requests.replying": ("is_request", "reply_to"),
    "aerobee.client.requests.request_producer": ("RequestProducer",),
    "aerobee.client.sending.fast": ("SendHandle",),
    "aerobee.client.sending.producer": ("Producer",),
    "aerobee.client.sending.selectors": ("QueueSelector", "at_random", "by_key"),
    "aerobee.client.settings": (
        "ClientSettings",
        "LatencySettings",
        "LitePullSettings",
        "ProducerSettings",
        "PullConsumerSettings",
        "PullSettings",
        "PushSettings",
        "TransactionSettings",
    ),
    "aerobee.client.transactions.half": ("HalfMessage", "Transaction"),
    "aerobee.client.transactions.listener": ("TransactionListener", "TransactionState"),
    "aerobee.client.transactions.producer": ("TransactionProducer",),
    "aerobee.remoting.errors": ("AerobeeError", "CallTimedOut", "ConnectionLost", "NotConnected"),
    "aerobee.remoting.net.access.credentials": ("SessionCredentials",),
    "aerobee.remoting.net.addresses": ("BadAddress",),
    "aerobee.remoting.net.tls": ("TlsClientSettings",),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # where it would make a name of every misspelling

    def __getattr__(name: str) -> Any:
        """Load a public name, and keep it: the next use is a plain one."""
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(home), name)
        return found


def __dir__() -> list[str]:
    """The public names alone, for completion: modules below are not for users."""
    return sorted(__all__)
