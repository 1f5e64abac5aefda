"""FastStream's test client: what is published is handled at once, without a cluster."""

import time
import uuid
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast, overload
from unittest.mock import MagicMock

import anyio
from faststream._internal.testing.broker import EnterType, TestBroker, change_producer
from faststream.exceptions import SubscriberNotFound

from aerobee.client import (
    Message,
    MessageQueue,
    ProducerSettings,
    ReceivedMessage,
    SendResult,
    SendStatus,
)
from aerobee.client.message import TOPIC_CHARACTERS_MAX, check_message, check_name
from aerobee.client.pulls.subscriptions import parse_subscription
from aerobee.client.sending.outgoing import Packer
from aerobee.client.sending.producer import DEFAULT_GROUP
from aerobee.integrations.faststream.broker import AerobeeBroker
from aerobee.integrations.faststream.producer import AerobeeFastProducer
from aerobee.integrations.faststream.publisher import AerobeePublisher
from aerobee.integrations.faststream.response import AerobeePublishCommand
from aerobee.integrations.faststream.subscriber import AerobeeSubscriber

__all__ = ["InMemoryProducer", "TestAerobeeBroker"]

NOWHERE = "no-broker"
HOST = bytes(8)


class TestAerobeeBroker(TestBroker[AerobeeBroker, EnterType], broker=AerobeeBroker):
    """Runs a broker's handlers without a cluster, in the task that publishes.

        async with TestAerobeeBroker(broker) as tested:
            await tested.publish(Order(number=7), "orders")
            bill.mock.assert_called_once_with({"number": 7})

    Each group that subscribes to the topic, and to the tag, gets the message once, now, whatever
    `delay` says; SQL92 expressions let everything pass. What a handler raises, `publish` raises.
    With `with_real=True` it is the cluster's turn, and mocks are there all the same.
    """

    @overload
    def __init__(
        self: "TestAerobeeBroker[AerobeeBroker]",
        broker: AerobeeBroker,
        /,
        *,
        with_real: bool = False,
        connect_only: bool | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self: "TestAerobeeBroker[tuple[AerobeeBroker, ...]]",
        *brokers: AerobeeBroker,
        with_real: bool = False,
        connect_only: bool | None = None,
    ) -> None: ...

    def __init__(
        self,
        *brokers: AerobeeBroker,
        with_real: bool = False,
        connect_only: bool | None = None,
    ) -> None:
        super().__init__(*brokers, with_real=with_real, connect_only=connect_only)

    def create_publisher_fake_subscriber(
        self, broker: AerobeeBroker, publisher: AerobeePublisher
    ) -> tuple[AerobeeSubscriber, bool]:
        """Return who gets what a publisher publishes, and whether that is somebody real."""
        for each in _subscribers(self.brokers):
            if each.topic == publisher.topic:
                return each, True
        group = f"test-{uuid.uuid4().hex}"
        return broker.subscriber(publisher.topic, group=group, persistent=False), False

    @contextmanager
    def _patch_producer(self, broker: AerobeeBroker) -> Generator[None, None, None]:
        config = broker.config.broker_config
        with change_producer(config, InMemoryProducer(broker, self.brokers)):
            yield

    async def _fake_connect(self, broker: AerobeeBroker, *args: Any, **more: Any) -> Any:
        return MagicMock()


def _subscribers(brokers: Sequence[AerobeeBroker]) -> Iterator[AerobeeSubscriber]:
    for broker in brokers:
        yield from cast("list[AerobeeSubscriber]", broker.subscribers)


class InMemoryProducer(AerobeeFastProducer):
    """Hands what is published to the subscribers of its topic."""

    def __init__(self, broker: AerobeeBroker, brokers: Sequence[AerobeeBroker]) -> None:
        super().__init__(broker._parser, broker._decoder)
        self._brokers = brokers
        self._serializer = broker.config.fd_config._serializer
        self.codec = broker.config.broker_codec or self.codec

    async def publish(self, cmd: AerobeePublishCommand) -> SendResult:
        """Have a message handled."""
        return await self._deliver([_received(await self.write(cmd, cmd.body))])

    async def publish_batch(self, cmd: AerobeePublishCommand) -> SendResult:
        """Have several handled, by subscribers of batches together."""
        messages = [await self.write(cmd, body) for body in cmd.batch_bodies]
        Packer(DEFAULT_GROUP, ProducerSettings()).pack_batch(messages)  # raises as a send would
        return await self._deliver([_received(each) for each in messages])

    async def _deliver(self, messages: list[ReceivedMessage]) -> SendResult:
        for subscriber in list(_subscribers(self._brokers)):
            wanted = _wanted(subscriber, messages)
            size = subscriber.wanted.batch
            if size is None:
                for message in wanted:
                    await subscriber.process_message(message)
            else:
                for at in range(0, len(wanted), size):
                    await subscriber.process_message(wanted[at : at + size])
        ids = ",".join(each.message_id for each in messages)
        return SendResult(SendStatus.SEND_OK, ids, "", messages[0].queue, 0)

    async def request(self, cmd: AerobeePublishCommand) -> ReceivedMessage:
        """Have a message handled; return what the first subscriber answers."""
        message = _received(await self.write(cmd, cmd.body))
        for subscriber in list(_subscribers(self._brokers)):
            if _wanted(subscriber, [message]) and subscriber.wanted.batch is None:
                with anyio.fail_after(cmd.timeout_s):
                    response = await subscriber.process_message(message)
                answer = AerobeePublishCommand.from_cmd(response.as_publish_command())
                answer.destination = cmd.destination
                answer.correlation_id = response.correlation_id
                return _received(await self.write(answer, answer.body))
        raise SubscriberNotFound(f"nobody subscribes to topic {cmd.destination!r}")


def _wanted(
    subscriber: AerobeeSubscriber, messages: list[ReceivedMessage]
) -> list[ReceivedMessage]:
    wanted = subscriber.wanted
    if messages[0].queue.topic != wanted.topic:
        return []
    return parse_subscription(wanted.topic, wanted.tags, wanted.sql).select(messages)


def _received(message: Message) -> ReceivedMessage:
    """Return a message as a consumer would get it; raises InvalidMessage as a send would."""
    check_message(message, ProducerSettings().body_bytes_max)
    check_name("topic", message.topic, TOPIC_CHARACTERS_MAX)
    now_ms = int(time.time() * 1000)
    properties = message.wire_properties(uuid.uuid4().hex.upper()).encode()
    return ReceivedMessage(
        MessageQueue(message.topic, NOWHERE, 0), message.body, 0, 0, 0, now_ms, now_ms,
        message.flag, 0, len(message.body), properties, HOST, HOST,
    )  # fmt: skip
