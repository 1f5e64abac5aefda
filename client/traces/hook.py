"""What hooks see, as RocketMQ's trace records."""

from time import monotonic
from typing import Final

from aerobee.client.hooks import (
    ConsumeContext,
    ConsumeHook,
    EndTransactionContext,
    EndTransactionHook,
    RecallContext,
    RecallHook,
    SendContext,
    SendHook,
)
from aerobee.client.message import Message, SendStatus
from aerobee.client.received import ReceivedMessage
from aerobee.client.traces import records
from aerobee.client.traces.batches import TraceItem
from aerobee.client.traces.dispatcher import TraceDispatcher
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.message.message_id import UniqueIds
from aerobee.remoting.message.properties import Property

DEFAULT_REGION: Final = "DefaultRegion"
_DELAYS: Final = (
    Property.DELAY, Property.TIMER_DELAY_SEC, Property.TIMER_DELAY_MS, Property.TIMER_DELIVER_MS,
    "__STARTDELIVERTIME",
)  # fmt: skip
_OUTCOMES: Final = {
    "SUCCESS": records.SUCCESS,
    "TIME_OUT": records.TIME_OUT,
    "EXCEPTION": records.EXCEPTION,
    "FAILED": records.FAILED,
}
_unique_ids = UniqueIds()


class TraceHook(SendHook, ConsumeHook, EndTransactionHook, RecallHook):
    """Makes trace records of what a producer sends and a consumer handles.

    What goes to topics whose name begins with the trace topic's is not traced, nor what a broker
    with `traceOn=false` stored, nor sends that failed or were one-way
    (SendMessageTraceHookImpl.java, ConsumeMessageTraceHookImpl.java).
    """

    def __init__(self, dispatcher: TraceDispatcher, trace_topic: str, *, cloud: bool) -> None:
        self.dispatcher = dispatcher
        self._trace_topic = trace_topic
        self._cloud = cloud

    async def close(self) -> None:
        """Send what waits, for a moment, and end."""
        await self.dispatcher.close()

    def before(self, context: SendContext | ConsumeContext) -> None:
        """Note when a send began, or tell that messages are about to be handled."""
        if isinstance(context, SendContext):
            context.kept[self] = wall_clock_ms(), monotonic()
        else:
            self._handling(context)

    def after(self, context: SendContext | ConsumeContext) -> None:
        """Tell how it went."""
        if isinstance(context, SendContext):
            self._sent(context)
        else:
            self._handled(context)

    def ended(self, context: EndTransactionContext) -> None:
        """Tell what became of a half message."""
        message = context.message
        if self._is_trace(message.topic):
            return
        trace = records.EndTransactionTrace(
            timestamp_ms=wall_clock_ms(), region=DEFAULT_REGION, group=context.group,
            topic=message.topic, message_id=context.message_id, tags=message.tags,
            keys=_keys(message), store_host=context.broker_address,
            message_type=records.TRANS_COMMIT, transaction_id=context.transaction_id,
            state=context.state, from_check=context.from_check,
        )  # fmt: skip
        self.dispatcher.append(TraceItem(message.topic, DEFAULT_REGION, (trace,)))

    def recalled(self, context: RecallContext) -> None:
        """Tell that a message was called back, or could not be."""
        region = context.region or DEFAULT_REGION
        trace = records.RecallTrace(
            timestamp_ms=wall_clock_ms(), region=region, group=context.group,
            topic=context.topic, message_id=context.message_id, succeeded=context.succeeded,
        )  # fmt: skip
        self.dispatcher.append(TraceItem(context.topic, region, (trace,)))

    def _is_trace(self, topic: str) -> bool:
        return topic.startswith(self._trace_topic)

    def _sent(self, context: SendContext) -> None:
        result, message, kept = context.result, context.messages[0], context.kept.get(self)
        if result is None or kept is None or not result.trace_on or self._is_trace(message.topic):
            return
        began_ms, began_s = kept
        region = result.region_id or DEFAULT_REGION
        single = len(context.messages) == 1
        trace = records.PubTrace(
            timestamp_ms=began_ms, region=region, group=context.group, topic=message.topic,
            message_id=result.message_id, tags=message.tags if single else None,
            keys=_keys(message) if single else None, store_host=context.broker_address,
            body_bytes=sum(len(each.body) for each in context.messages),
            cost_ms=round((monotonic() - began_s) * 1000),
            message_type=_type(message, half=context.half),
            offset_message_id=result.offset_message_id,
            succeeded=result.status is SendStatus.SEND_OK,
        )  # fmt: skip
        self.dispatcher.append(TraceItem(message.topic, region, (trace,)))

    def _handling(self, context: ConsumeContext) -> None:
        traced = [
            message
            for message in context.messages
            if message.properties.get(Property.TRACE_ON) != "false"
            and not self._is_trace(message.topic)
        ]
        if not traced:
            return
        now_ms, request_id = wall_clock_ms(), _unique_ids.next()
        context.kept[self] = traced, request_id, monotonic()
        befores = tuple(
            records.SubBeforeTrace(
                timestamp_ms=now_ms, region=_region(message), group=context.group,
                request_id=request_id, message_id=message.message_id,
                retry_times=message.reconsume_times, keys=_received_keys(message),
            )
            for message in traced
        )  # fmt: skip
        self.dispatcher.append(TraceItem(traced[0].topic, _region(traced[0]), befores))

    def _handled(self, context: ConsumeContext) -> None:
        kept = context.kept.get(self)
        if kept is None:
            return
        traced, request_id, began_s = kept
        cost_ms = round((monotonic() - began_s) * 1000) // len(context.messages)
        succeeded = context.outcome in ("SUCCESS", "TIME_OUT")
        afters = tuple(
            records.SubAfterTrace(
                request_id=request_id, message_id=message.message_id, cost_ms=cost_ms,
                succeeded=succeeded, keys=_received_keys(message),
                outcome=_OUTCOMES.get(context.outcome, records.FAILED),
                timestamp_ms=None if self._cloud else wall_clock_ms(),
                group=None if self._cloud else context.group,
            )
            for message in traced
        )  # fmt: skip
        self.dispatcher.append(TraceItem(traced[0].topic, _region(traced[0]), afters))


def _keys(message: Message) -> str | None:
    keys = message.keys
    return (keys if isinstance(keys, str) else " ".join(keys)) or None


def _received_keys(message: ReceivedMessage) -> str | None:
    return message.properties.get(Property.KEYS)


def _region(message: ReceivedMessage) -> str:
    return message.properties.get(Property.MSG_REGION, DEFAULT_REGION)


def _type(message: Message, *, half: bool) -> int:
    if half:
        return records.TRANS_HALF
    if message.delay_level or any(name in message.properties for name in _DELAYS):
        return records.DELAY
    return records.NORMAL
