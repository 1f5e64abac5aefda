"""Publishers: what handlers return, and what programs publish, to a topic of their own."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Unpack

from faststream._internal.configs import PublisherSpecificationConfig, PublisherUsecaseConfig
from faststream._internal.endpoint.publisher import PublisherSpecification, PublisherUsecase
from faststream._internal.endpoint.publisher.fake import FakePublisher
from faststream._internal.producer import ProducerProto
from faststream._internal.types import PublisherMiddleware
from faststream.response import PublishCommand
from faststream.response.publish_type import PublishType
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import Message as MessageSpec
from faststream.specification.schema import Operation, PublisherSpec

from aerobee.client import ReceivedMessage, SendResult
from aerobee.integrations.faststream.config import AerobeeBrokerConfig
from aerobee.integrations.faststream.message import AerobeeMessage
from aerobee.integrations.faststream.response import AerobeePublishCommand, SendOptions

__all__ = ["AerobeePublisher", "AerobeePublisherConfig", "AerobeePublisherSpecification",
           "AnswerSpecificationConfig", "ReplyPublisher"]  # fmt: skip


@dataclass(kw_only=True)
class AnswerSpecificationConfig(PublisherSpecificationConfig):
    """What documents a publisher."""

    topic: str


@dataclass(kw_only=True)
class AerobeePublisherConfig(PublisherUsecaseConfig):
    """Where a publisher publishes to, and how."""

    _outer_config: AerobeeBrokerConfig
    topic: str
    headers: dict[str, str]
    how: SendOptions


class AerobeePublisherSpecification(
    PublisherSpecification[AerobeeBrokerConfig, AnswerSpecificationConfig]
):
    """How AsyncAPI documents show a publisher."""

    @property
    def topic(self) -> str:
        """The topic with the prefixes of its routers."""
        return f"{self._outer_config.prefix}{self.config.topic}"

    @property
    def name(self) -> str:
        """The key of the channel."""
        return self.config.title_ or f"{self.topic}:Publisher"

    def get_schema(self) -> dict[str, PublisherSpec]:
        """Return the channel with what its messages look like."""
        payload = resolve_payloads(self.get_payloads(), "Publisher")
        message = MessageSpec(title=f"{self.name}:Message", payload=payload)
        return {
            self.name: PublisherSpec(
                address=self.topic,
                description=self.config.description_,
                operation=Operation(message=message, bindings=None),
                bindings=None,
            )
        }


class AerobeePublisher(PublisherUsecase):
    """Publishes to one topic: what the handlers return that it decorates, or by `publish`.

    billed = broker.publisher("billed", tags="new")
    await billed.publish(order, key="order-1")
    """

    _outer_config: AerobeeBrokerConfig

    def __init__(
        self,
        config: AerobeePublisherConfig,
        specification: PublisherSpecification[Any, Any],
    ) -> None:
        super().__init__(config, specification)
        self._config = config

    @property
    def topic(self) -> str:
        """The topic with the prefixes of its routers."""
        return f"{self._outer_config.prefix}{self._config.topic}"

    async def publish(
        self,
        message: Any = None,
        topic: str = "",
        *,
        headers: dict[str, str] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        **how: Unpack[SendOptions],
    ) -> SendResult:
        """Publish a message, here or to another topic; what is not said is the publisher's."""
        command = AerobeePublishCommand(
            message,
            how={**self._config.how, **how},
            destination=topic or self.topic,
            headers=self._config.headers | (headers or {}),
            correlation_id=correlation_id or self._outer_config.id_generator(),
            reply_to=reply_to,
        )
        result: SendResult = await self._basic_publish(
            command, producer=self._outer_config.producer, _extra_middlewares=()
        )
        return result

    async def _publish(
        self, cmd: PublishCommand, *, _extra_middlewares: Iterable[PublisherMiddleware]
    ) -> None:
        """Publish what a handler has returned."""
        command = AerobeePublishCommand.from_cmd(cmd)
        command.destination = command.destination or self.topic
        command.add_headers(dict(self._config.headers), override=False)
        command.how = {**self._config.how, **command.how}
        await self._basic_publish(
            command, producer=self._outer_config.producer, _extra_middlewares=_extra_middlewares
        )

    async def request(
        self,
        message: Any = None,
        topic: str = "",
        *,
        headers: dict[str, str] | None = None,
        correlation_id: str | None = None,
        timeout: float = 3.0,  # noqa: ASYNC109 - FastStream's name
        **how: Unpack[SendOptions],
    ) -> AerobeeMessage:
        """Publish a message and return the answer to it, within `timeout` s; errors are those of
        `RequestProducer.request`."""
        command = AerobeePublishCommand(
            message,
            how={**self._config.how, **how},
            destination=topic or self.topic,
            headers=self._config.headers | (headers or {}),
            correlation_id=correlation_id or self._outer_config.id_generator(),
            timeout_s=timeout,
            _publish_type=PublishType.REQUEST,
        )
        answer: AerobeeMessage = await self._basic_request(
            command, producer=self._outer_config.producer
        )
        return answer


class ReplyPublisher(FakePublisher):
    """Answers one message: its request, or by the topic that it named in `reply_to`."""

    def __init__(
        self, producer: ProducerProto[Any], topic: str, request: ReceivedMessage | None
    ) -> None:
        super().__init__(producer=producer)
        self._topic = topic
        self._request = request

    def patch_command(self, cmd: PublishCommand) -> AerobeePublishCommand:
        """Say where an answer goes."""
        command = AerobeePublishCommand.from_cmd(super().patch_command(cmd))
        command.destination, command.request = self._topic, self._request
        return command
