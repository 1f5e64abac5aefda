"""The clients of `aerobee.client` for programs that wait: the same names, without `await`.

As there a name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from aerobee.client import (
        JSON,
        MSGPACK,
        AerobeeError,
        Averagely,
        AveragelyByCircle,
        BadAddress,
        BadBody,
        BodyCodec,
        BrokerRefused,
        ByConfig,
        ByMachineRoom,
        CallTimedOut,
        ClientError,
        ClientSettings,
        ConnectionLost,
        ConsistentHash,
        ConsumeContext,
        ConsumeFrom,
        ConsumeHook,
        ConsumeResult,
        EndTransactionContext,
        EndTransactionHook,
        FilterContext,
        FilterHook,
        FoundMessages,
        HalfMessage,
        HandlerStatistics,
        InvalidHandler,
        InvalidMessage,
        InvalidSetting,
        InvalidUse,
        JsonCodec,
        LatencySettings,
        Later,
        LitePullSettings,
        MachineRoomNearby,
        Message,
        MessageModel,
        MessageQueue,
        MessageTraces,
        MsgpackCodec,
        NoReply,
        NotConnected,
        ProducerSettings,
        PullConsumerSettings,
        PullResult,
        PullSettings,
        PullStatus,
        PushSettings,
        PushStatistics,
        QueueSelector,
        QueueStatistics,
        RecallContext,
        RecallHook,
        ReceivedMessage,
        ReplierRefused,
        ReplyConnectionLost,
        ReplyNotTaken,
        RouteMissing,
        SendContext,
        SendFailed,
        SendHook,
        SendResult,
        SendStatus,
        Strategy,
        TlsClientSettings,
        TopicStatistics,
        TransactionNotBegun,
        TransactionSettings,
        TransactionState,
        Unavailable,
        at_random,
        by_key,
        is_request,
        reply_to,
    )
    from aerobee.client.sync.lite_pull_consumer import LitePullConsumer
    from aerobee.client.sync.producer import Producer
    from aerobee.client.sync.pull_consumer import PullConsumer
    from aerobee.client.sync.push_consumer import BatchHandler, MessageHandler, PushConsumer
    from aerobee.client.sync.request_producer import RequestProducer
    from aerobee.client.sync.running import run
    from aerobee.client.sync.soon import SendHandle
    from aerobee.client.sync.traces import read_traces
    from aerobee.client.sync.transactions import (
        Transaction,
        TransactionListener,
        TransactionProducer,
    )

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
    "SendResult",
    "SendStatus",
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
    "BatchHandler": "aerobee.client.sync.push_consumer",
    "LitePullConsumer": "aerobee.client.sync.lite_pull_consumer",
    "MessageHandler": "aerobee.client.sync.push_consumer",
    "Producer": "aerobee.client.sync.producer",
    "PullConsumer": "aerobee.client.sync.pull_consumer",
    "PushConsumer": "aerobee.client.sync.push_consumer",
    "RequestProducer": "aerobee.client.sync.request_producer",
    "SendHandle": "aerobee.client.sync.soon",
    "Transaction": "aerobee.client.sync.transactions",
    "TransactionListener": "aerobee.client.sync.transactions",
    "TransactionProducer": "aerobee.client.sync.transactions",
    "read_traces": "aerobee.client.sync.traces",
    "run": "aerobee.client.sync.running",
}
"""Of what waits; the other names are those of `aerobee.client`."""


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load a public name when it is first used."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOMES.get(name, "aerobee.client")), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return sorted(__all__)
