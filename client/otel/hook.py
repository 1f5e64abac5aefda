"""Spans and metrics of what a client sends and handles, per OpenTelemetry's messaging conventions.

The conventions are still in development; spans follow those of semantic conventions 1.30 and later.
"""

import logging
from collections.abc import Sequence
from contextvars import Token
from time import monotonic
from typing import Any, Final

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from aerobee.client.hooks import (
    ConsumeContext,
    ConsumeHook,
    EndTransactionContext,
    EndTransactionHook,
    SendContext,
    SendHook,
    SettleContext,
    SettleHook,
)
from aerobee.client.otel import attributes as names
from aerobee.client.otel import messages as said
from aerobee.client.otel.measures import Measures
from aerobee.client.received import ReceivedMessage

log = logging.getLogger(__name__)

SCOPE: Final = "aerobee.client"
_DECISIONS: Final = {"COMMIT_MESSAGE": "commit", "ROLLBACK_MESSAGE": "rollback"}
_GOOD: Final = ("SUCCESS", "TIME_OUT")  # a handler that took too long has succeeded


class OpenTelemetryHook(SendHook, ConsumeHook, EndTransactionHook, SettleHook):
    """Makes spans and metrics, and lets the context travel with messages.

        telemetry = OpenTelemetryHook()
        producer = Producer("p", namesrv="127.0.0.1:9876", hooks=[telemetry])
        consumer = PushConsumer("c", namesrv="127.0.0.1:9876", hooks=[telemetry])

    One may serve any number of clients. Each attempt of a send is a span, `send TOPIC`; of a batch
    with a `create` span for each message. A handler runs within `process TOPIC`, which continues
    the sender's trace where it is about one message, and links to it in any case; what a program
    polls is `receive TOPIC`. What settles messages is `nack TOPIC` where they are given back,
    `commit TOPIC` where the program stores an offset, and `commit` or `rollback` for a transaction.
    The context is among the properties `traceparent`, `tracestate` and `baggage`; one that the user
    has set stays, and is linked to. Without `tracer_provider` and `meter_provider` the global ones
    are used. Errors of OpenTelemetry itself are logged alone.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        self._use(tracer_provider, meter_provider)

    def _use(
        self,
        tracer_provider: trace.TracerProvider | None,
        meter_provider: metrics.MeterProvider | None,
    ) -> None:
        self._spell = names.spelling()
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        self._measures = Measures(metrics.get_meter(SCOPE, meter_provider=meter_provider))

    def before(self, context: SendContext | ConsumeContext) -> None:
        """Begin a span, and let messages carry it, or the handler run within it."""
        try:
            if isinstance(context, SendContext):
                self._sending(context)
            else:
                self._processing(context)
        except Exception:  # what watches a program may not end its sends
            log.exception("telemetry failed topic=%s", context.queue.topic)

    def after(self, context: SendContext | ConsumeContext) -> None:
        """End the span, with how it went."""
        try:
            if isinstance(context, SendContext):
                self._sent(context)
            else:
                self._processed(context)
        except Exception:
            log.exception("telemetry failed topic=%s", context.queue.topic)

    def ended(self, context: EndTransactionContext) -> None:
        """Make a span of what was told of a half message; it is over at once: nobody answers."""
        try:
            self._ended(context)
        except Exception:
            log.exception("telemetry failed topic=%s", context.message.topic)

    def settling(self, context: SettleContext) -> None:
        """Begin a span of what settles messages."""
        try:
            self._settling(context)
        except Exception:
            log.exception("telemetry failed topic=%s", context.queue.topic)

    def settled(self, context: SettleContext) -> None:
        """End it, with how it went."""
        try:
            self._settled(context)
        except Exception:
            log.exception("telemetry failed topic=%s", context.queue.topic)

    def _sending(self, context: SendContext) -> None:
        own = [said.own_message(message) for message in context.messages]
        attributes = said.queue_attributes("send", "send", context.queue)
        attributes |= said.address_attributes(context.broker_address)
        attributes |= said.client_attributes(context.client_id)
        attributes |= said.sent_attributes(own, half=context.half)
        name, users = f"send {context.queue.topic}", [said.users_link(message) for message in own]
        links = [link for link in users if link is not None]
        if len(own) == 1:
            kind = SpanKind.CLIENT if links else SpanKind.PRODUCER
            span = self._tracer.start_span(
                name, kind=kind, attributes=self._spell(attributes), links=links
            )
            if not links:
                context.messages[0] = said.carry(own[0], trace.set_span_in_context(span))
        else:
            for at, message in enumerate(own):
                if users[at] is not None:
                    continue
                carried = self._created(context, message)
                links.append(trace.Link(carried.get_span_context()))
                context.messages[at] = said.carry(message, trace.set_span_in_context(carried))
            span = self._tracer.start_span(
                name, kind=SpanKind.CLIENT, attributes=self._spell(attributes), links=links
            )
        context.kept[self] = span, attributes, monotonic()

    def _created(self, context: SendContext, message: Any) -> Span:
        """Return a span that says that one message of a batch was made; it is over at once."""
        attributes = said.queue_attributes("create", "create", context.queue)
        attributes |= said.client_attributes(context.client_id)
        span = self._tracer.start_span(
            f"create {context.queue.topic}",
            kind=SpanKind.PRODUCER,
            attributes=self._spell(attributes | said.sent_attributes([message])),
        )
        span.end()
        return span

    def _sent(self, context: SendContext) -> None:
        kept = context.kept.get(self)
        if kept is None:
            return
        span, attributes, began_s = kept
        error = _error_type(context.error)
        if context.result is not None:
            span.set_attribute(names.PARTITION, str(context.result.queue.queue_id))
            if len(context.messages) == 1:
                span.set_attribute(names.MESSAGE_ID, context.result.message_id)
        _end(span, context.error, error)
        self._measures.sent(attributes, len(context.messages), monotonic() - began_s, error)

    def _processing(self, context: ConsumeContext) -> None:
        polled = context.polled
        operation = "receive" if polled else "process"
        attributes = said.queue_attributes(operation, operation, context.queue)
        attributes[names.DESTINATION] = topic = context.messages[0].topic
        attributes |= said.consumer_attributes(context)
        attributes |= said.received_attributes(context.messages)
        senders = [said.sender_context(message) for message in context.messages]
        links = [trace.Link(each) for each in senders if each is not None]
        parent: Context | None = None  # of what is polled: the program's own
        if not polled:
            parent = _parent(context.messages, senders)
        span = self._tracer.start_span(
            f"{operation} {topic}",
            context=parent,
            kind=SpanKind.CLIENT if polled else SpanKind.CONSUMER,
            attributes=self._spell(attributes),
            links=links,
        )
        token: Token[Context] | None = None
        if not polled:
            token = contexts.attach(trace.set_span_in_context(span, parent))
        context.kept[self] = span, attributes, monotonic(), token

    def _processed(self, context: ConsumeContext) -> None:
        kept = context.kept.get(self)
        if kept is None:
            return
        span, attributes, began_s, token = kept
        if token is not None:
            contexts.detach(token)
        error = _error_type(context.error)
        if error is None and context.outcome not in _GOOD:
            error = context.outcome.lower()
        _end(span, context.error, error)
        count, duration_s = len(context.messages), monotonic() - began_s
        self._measures.consumed(attributes, count, duration_s, error)

    def _ended(self, context: EndTransactionContext) -> None:
        if (operation := _DECISIONS.get(context.state)) is None:
            return  # nothing is settled: the broker asks again
        message = said.own_message(context.message)
        attributes = said.topic_attributes(operation, "settle", message.topic)
        attributes |= said.address_attributes(context.broker_address)
        attributes |= said.client_attributes(context.client_id)
        attributes |= said.sent_attributes([message], half=True)
        attributes[names.MESSAGE_ID] = context.message_id
        link = said.users_link(context.message)
        self._tracer.start_span(
            f"{operation} {message.topic}",
            kind=SpanKind.CLIENT,
            attributes=self._spell(attributes),
            links=[] if link is None else [link],
        ).end()

    def _settling(self, context: SettleContext) -> None:
        operation, messages = context.operation, context.messages
        topic = messages[0].topic if messages else context.queue.topic
        attributes = said.queue_attributes(operation, "settle", context.queue)
        attributes[names.DESTINATION] = topic
        attributes |= said.consumer_attributes(context)
        if messages:
            attributes |= said.received_attributes(messages)
        senders = [said.sender_context(message) for message in messages]
        span = self._tracer.start_span(
            f"{operation} {topic}",
            context=_parent(context.messages, senders) if messages else None,
            kind=SpanKind.CLIENT,
            attributes=self._spell(attributes),
            links=[trace.Link(each) for each in senders if each is not None],
        )
        context.kept[self] = span, attributes, monotonic()

    def _settled(self, context: SettleContext) -> None:
        kept = context.kept.get(self)
        if kept is None:
            return
        span, attributes, began_s = kept
        error = _error_type(context.error)
        if error is None and not context.succeeded:
            error = "failed"
        _end(span, context.error, error)
        self._measures.settled(attributes, monotonic() - began_s, error)


def _parent(
    messages: list[ReceivedMessage], senders: Sequence[trace.SpanContext | None]
) -> Context:
    """Return what one message came with, of several nothing.

    Not the context of a worker, which is that of whoever has started the consumer.
    """
    one = len(senders) == 1 and senders[0] is not None
    return said.received_context(messages[0]) if one else Context()


def _error_type(error: BaseException | None) -> str | None:
    return None if error is None else f"{type(error).__module__}.{type(error).__qualname__}"


def _end(span: Span, error: BaseException | None, error_type: str | None) -> None:
    if error is not None:
        span.record_exception(error)
    if error_type is not None:
        span.set_attribute(names.ERROR_TYPE, error_type)
        span.set_status(Status(StatusCode.ERROR, str(error) if error is not None else None))
    span.end()
