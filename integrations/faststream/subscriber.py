"""Subscribers: a topic's messages, as a group's consumer hands them to FastStream."""

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
from faststream._internal.configs import SubscriberSpecificationConfig, SubscriberUsecaseConfig
from faststream._internal.constants import EMPTY
from faststream._internal.endpoint.publisher import PublisherProto
from faststream._internal.endpoint.subscriber import SubscriberSpecification, SubscriberUsecase
from faststream._internal.endpoint.subscriber.call_item import CallsCollection
from faststream._internal.endpoint.utils import process_msg
from faststream.exceptions import SetupError
from faststream.message import StreamMessage
from faststream.middlewares import AckPolicy
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import Message as MessageSpec
from faststream.specification.schema import Operation, SubscriberSpec

from aerobee.client import Later, LitePullConsumer, ReceivedMessage, is_request
from aerobee.integrations.faststream.config import AerobeeBrokerConfig
from aerobee.integrations.faststream.groups import GroupOptions, Subscribed
from aerobee.integrations.faststream.message import (
    OUTCOME,
    SOON,
    Outcome,
    decode_batch,
    decode_one,
    parse_batch,
    parse_one,
)
from aerobee.integrations.faststream.publisher import ReplyPublisher

__all__ = ["AerobeeSubscriber", "AerobeeSubscriberConfig", "AerobeeSubscriberSpecification",
           "TopicSpecificationConfig", "make_subscriber"]  # fmt: skip

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class TopicSpecificationConfig(SubscriberSpecificationConfig):
    """What documents a subscriber."""

    topic: str


@dataclass(kw_only=True)
class AerobeeSubscriberConfig(SubscriberUsecaseConfig):
    """What one subscriber wants, and in whose name."""

    _outer_config: AerobeeBrokerConfig
    wanted: Subscribed
    group: str | None = None
    options: GroupOptions = field(default_factory=GroupOptions)

    @property
    def ack_policy(self) -> AckPolicy:
        """The one that is said, here or by the broker; else a failed message comes again."""
        for policy in (self._ack_policy, self._outer_config.ack_policy):
            if policy is not EMPTY:
                return policy
        return AckPolicy.NACK_ON_ERROR


class AerobeeSubscriberSpecification(
    SubscriberSpecification[AerobeeBrokerConfig, TopicSpecificationConfig]
):
    """How AsyncAPI documents show a subscriber."""

    @property
    def topic(self) -> str:
        """The topic with the prefixes of its routers."""
        return f"{self._outer_config.prefix}{self.config.topic}"

    @property
    def channel_labels(self) -> list[str]:
        """The one topic."""
        return [self.topic]

    def get_schema(self) -> dict[str, SubscriberSpec]:
        """Return the channel with what its messages look like."""
        message = MessageSpec(
            title=f"{self.name}:Message", payload=resolve_payloads(self.get_payloads())
        )
        return {
            self.name: SubscriberSpec(
                address=self.topic,
                description=self.description,
                operation=Operation(message=message, bindings=None),
                bindings=None,
            )
        }


class AerobeeSubscriber(SubscriberUsecase[Any]):
    """Has a topic's messages handled, one by one or in batches, by the handlers it decorates.

    By default a message is done when its handler returns, and comes again when it raises: after
    10 s, 30 s, 1 min ..., 16 times, then it is a dead letter (AckPolicy.NACK_ON_ERROR).
    REJECT_ON_ERROR makes it one at once, ACK and ACK_FIRST have it done either way. With MANUAL it
    is what the handler says: what it says nothing of comes again.
    """

    _outer_config: AerobeeBrokerConfig

    def __init__(
        self,
        config: AerobeeSubscriberConfig,
        specification: SubscriberSpecification[Any, Any],
        calls: CallsCollection[Any],
    ) -> None:
        batch = config.wanted.batch is not None
        config.parser = parse_batch if batch else parse_one
        config.decoder = decode_batch if batch else decode_one
        super().__init__(config, specification, calls)
        self._config = config
        self._joined: tuple[str, str] | None = None  # a group, by a topic
        self._poller: LitePullConsumer | None = None

    @property
    def topic(self) -> str:
        """The topic with the prefixes of its routers."""
        return f"{self._outer_config.prefix}{self._config.wanted.topic}"

    @property
    def group(self) -> str:
        """Its own group, or the broker's; raises SetupError where neither is said."""
        group = self._config.group or self._outer_config.group
        if not group:
            raise SetupError(
                f"the subscriber of topic {self.topic!r} has no group: write"
                " @broker.subscriber(..., group=...), or AerobeeBroker(..., group=...) for all"
            )
        return group

    @property
    def wanted(self) -> Subscribed:
        """What is subscribed, with the whole name of the topic."""
        own = self._config.wanted
        return Subscribed(topic=self.topic, tags=own.tags, sql=own.sql, batch=own.batch)

    async def start(self) -> None:
        """Join the group; messages come once the broker has started."""
        await super().start()
        if self.calls:
            group, wanted = self.group, self.wanted
            await self._outer_config.groups.join(group, self._config.options, wanted, self._handle)
            self._joined = group, wanted.topic
        self._post_start()

    async def stop(self) -> None:
        """Leave the group; where others of the broker are in it, give up the topic alone."""
        poller, self._poller = self._poller, None
        if poller is not None:
            await poller.close()
        joined, self._joined = self._joined, None
        if joined is not None:
            await self._outer_config.groups.leave(*joined)
        await super().stop()

    async def _handle(self, given: ReceivedMessage | list[ReceivedMessage]) -> Later | None:
        """Let FastStream handle what the consumer brought; return what was said of it."""
        if not self.running:  # between a stop and the end of its topic
            return SOON
        outcome = Outcome()
        OUTCOME.set(outcome)
        await self.consume(given)
        if outcome.rejected and self._config.options.ordered:
            one = given[0] if isinstance(given, list) else given
            log.warning(
                "rejected, passed over: ordered consumption knows no dead letters by hand group=%s"
                " queue=%s offset=%d message_id=%s",
                self.group, one.queue, one.queue_offset, one.message_id,
            )  # fmt: skip
            return None
        return outcome.answer

    def _make_response_publisher(self, message: StreamMessage[Any]) -> Sequence[PublisherProto]:
        raw = message.raw_message
        if isinstance(raw, list):  # several, and who is to get the answer?
            return ()
        request = raw if is_request(raw) else None
        return (ReplyPublisher(self._outer_config.producer, message.reply_to, request),)

    # --- without handlers ---

    async def get_one(
        self,
        *,
        timeout: float = 5.0,  # noqa: ASYNC109 - FastStream's name
    ) -> StreamMessage[Any] | None:
        """Return the next message, None after `timeout` s; the one before it is done then.

        It is the group's, and acknowledging it says nothing. Raises SetupError where the subscriber
        has handlers.
        """
        poller = await self._poll()
        raw = None
        with anyio.move_on_after(timeout):
            raw = await anext(poller, None)
        return None if raw is None else await self._process(raw)

    async def __aiter__(self) -> AsyncIterator[StreamMessage[Any]]:
        """Iterate over the messages; one is done when the next one is asked for."""
        async for raw in await self._poll():
            yield await self._process(raw)

    async def _process(self, raw: ReceivedMessage) -> StreamMessage[Any]:
        parser, decoder = self._get_parser_and_decoder()
        context = self._outer_config.context
        message = await process_msg(
            msg=raw,
            middlewares=(each(raw, context=context) for each in self._broker_middlewares),
            parser=parser,
            decoder=decoder,
        )
        assert message is not None
        return message

    async def _poll(self) -> LitePullConsumer:
        if self.calls or self._config.wanted.batch is not None:
            raise SetupError("who asks for messages one by one has neither handlers nor batches")
        if self._poller is None:
            options, wanted = self._config.options, self.wanted
            poller = self._outer_config.groups.poller(self.group, options)
            poller.subscribe(wanted.topic, tags=wanted.tags, sql=wanted.sql)
            await poller.start()
            self._poller = poller
        return self._poller

    def get_log_context(self, message: StreamMessage[Any] | None) -> dict[str, str]:
        """Return what each line of the log says of a message."""
        return {
            "topic": self.topic,
            "group": self._config.group or self._outer_config.group,
            "message_id": getattr(message, "message_id", ""),
        }


def make_subscriber(
    config: AerobeeSubscriberConfig, documented: TopicSpecificationConfig
) -> AerobeeSubscriber:
    """Return a subscriber without handlers yet."""
    calls = CallsCollection[Any]()
    specification = AerobeeSubscriberSpecification(config._outer_config, documented, calls)
    return AerobeeSubscriber(config, specification, calls)
