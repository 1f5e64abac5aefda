"""The broker of FastStream's applications."""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Unpack

from fast_depends import Provider, dependency_provider
from fast_depends.dependencies import Dependant
from faststream import ContextRepo
from faststream._internal.basic_types import LoggerProto
from faststream._internal.broker import BrokerUsecase
from faststream._internal.constants import EMPTY
from faststream._internal.di import FastDependsConfig
from faststream._internal.parser import CodecProto
from faststream._internal.types import BrokerMiddleware, CustomCallable
from faststream.middlewares import AckPolicy
from faststream.response.publish_type import PublishType
from faststream.specification.schema import BrokerSpec

from aerobee.client import (
    ClientError,
    ClientSettings,
    ProducerSettings,
    PushSettings,
    RequestProducer,
    RouteMissing,
    SendResult,
)
from aerobee.client.cluster.address_server import NAMESRV_ADDR
from aerobee.integrations.faststream.config import AerobeeBrokerConfig
from aerobee.integrations.faststream.groups import Groups
from aerobee.integrations.faststream.logs import logger_state
from aerobee.integrations.faststream.message import AerobeeMessage
from aerobee.integrations.faststream.producer import AerobeeFastProducer
from aerobee.integrations.faststream.registrator import AerobeeRegistrator
from aerobee.integrations.faststream.response import AerobeePublishCommand, SendOptions
from aerobee.remoting.words import AUTO_CREATE_TOPIC

__all__ = ["AerobeeBroker"]

PRODUCERS = "faststream-producers"


class AerobeeBroker(AerobeeRegistrator, BrokerUsecase[Any, RequestProducer, AerobeeBrokerConfig]):
    """A RocketMQ or Aerobee cluster, as a broker of FastStream.

        broker = AerobeeBroker("127.0.0.1:9876", group="billing")
        app = FastStream(broker)

        @broker.subscriber("orders", tags="new")
        @broker.publisher("bills")
        async def bill(order: Order) -> Bill: ...

    Bodies are read and written as FastStream does everywhere: pydantic models and plain data as
    JSON, with a header `content-type`; headers are a message's properties. A handler that raises
    has its message again later, so that it may run more than once: see `subscriber`.
    """

    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        group: str = "",
        settings: PushSettings | None = None,
        producer: ProducerSettings | None = None,
        client: ClientSettings | None = None,
        graceful_timeout: float | None = 15.0,
        ack_policy: AckPolicy = EMPTY,
        decoder: CustomCallable | None = None,
        parser: CustomCallable | None = None,
        codec: CodecProto | None = None,
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any, Any]] = (),
        routers: Iterable[AerobeeRegistrator] = (),
        description: str | None = None,
        logger: LoggerProto | None = EMPTY,
        log_level: int = logging.INFO,
        apply_types: bool = True,
        serializer: Any = EMPTY,
        provider: Provider | None = None,
        context: ContextRepo | None = None,
    ) -> None:
        """Describe the broker; nothing happens before the application starts.

        `group` is that of subscribers which name none, and brokers know the process's sends by it.
        `settings` are those of consumers, `producer` those of sends, `client` those of both. A stop
        waits `graceful_timeout` s for handlers, or `PushSettings.handover_timeout_ms` where there
        are `settings`. The rest is as in FastStream's other brokers.
        """
        self._make_client = partial(  # later: documents and tests need no address
            RequestProducer, group or PRODUCERS, namesrv=namesrv, settings=producer, client=client
        )
        self._fast = AerobeeFastProducer(parser, decoder)
        super().__init__(
            routers=routers,
            config=AerobeeBrokerConfig(
                group=group,
                groups=Groups(namesrv, client, settings, graceful_timeout),
                producer=self._fast,
                broker_middlewares=middlewares,
                broker_parser=parser,
                broker_decoder=decoder,
                broker_codec=codec,
                logger=logger_state(logger=logger, log_level=log_level),
                fd_config=FastDependsConfig(
                    use_fastdepends=apply_types,
                    serializer=serializer,
                    provider=provider or dependency_provider,
                    context=context or ContextRepo(),
                ),
                broker_dependencies=dependencies,
                graceful_timeout=graceful_timeout,
                ack_policy=ack_policy,
                extra_context={"broker": self},
            ),
            specification=_described(namesrv, description),
        )

    # --- life ---

    async def _connect(self) -> RequestProducer:
        """Be ready to publish; connections are made when they are needed."""
        connection = self._make_client()
        await connection.start()
        config = self.config.broker_config
        self._fast.connect(connection, config.fd_config._serializer, config.broker_codec)
        return connection

    async def start(self) -> None:
        """Have messages handled from now on; where one consumer does not start, none is left."""
        await self.connect()
        try:
            await super().start()
            await self.config.broker_config.groups.serve()
        except BaseException:
            await self.stop()
            raise

    async def stop(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> None:
        """Let running handlers end, publishing included, store what is done, and say good-bye."""
        async with contextlib.AsyncExitStack() as last:  # each of them, whatever the others raise
            last.push_async_callback(self._disconnect)
            last.push_async_callback(super().stop, exc_type, exc_val, exc_tb)
            await self.config.broker_config.groups.close()

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._fast.disconnect()
        if connection is not None:
            await connection.close()

    async def ping(
        self,
        timeout: float | None = 5.0,  # noqa: ASYNC109 - FastStream's name
    ) -> bool:
        """Whether a nameserver answers within `timeout` s."""
        if self._connection is None:
            return False
        try:
            async with asyncio.timeout(timeout):
                await self._connection.fetch_queues(AUTO_CREATE_TOPIC)
        except RouteMissing:  # which is an answer
            return True
        except (ClientError, TimeoutError):
            return False
        return True

    # --- publishing ---

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
        """Publish a message and return where it went.

            await broker.publish(order, "orders", tags="new", key="order-1")
            await broker.publish(order, "reminders", delay=timedelta(hours=1))

        None and "" are published as JSON, for brokers take no empty bodies. Raises what
        `Producer.send` raises.
        """
        command = self._command(message, topic, headers, correlation_id, how)
        command.reply_to = reply_to
        result: SendResult = await self._basic_publish(command, producer=self.config.producer)
        return result

    async def publish_batch(  # type: ignore[override]
        self,
        *messages: Any,
        topic: str = "",
        headers: dict[str, str] | None = None,
        correlation_id: str | None = None,
        **how: Unpack[SendOptions],
    ) -> SendResult:
        """Publish messages to one topic as one request, all of them or none, 4 MiB together."""
        command = self._command(None, topic, headers, correlation_id, how)
        command.batch_bodies = messages
        result: SendResult = await self._basic_publish_batch(command, producer=self.config.producer)
        return result

    async def request(  # type: ignore[override]
        self,
        message: Any = None,
        topic: str = "",
        *,
        headers: dict[str, str] | None = None,
        correlation_id: str | None = None,
        timeout: float = 3.0,  # noqa: ASYNC109 - FastStream's name
        **how: Unpack[SendOptions],
    ) -> AerobeeMessage:
        """Publish a message and return what a subscriber's handler answers.

            answer = await broker.request(order, "prices", timeout=2.0)
            print(await answer.decode())

        `timeout` is seconds, for everything. Errors are those of `RequestProducer.request`.
        """
        command = self._command(message, topic, headers, correlation_id, how)
        command.timeout_s, command.publish_type = timeout, PublishType.REQUEST
        answer: AerobeeMessage = await self._basic_request(command, producer=self.config.producer)
        return answer

    def _command(
        self,
        message: Any,
        topic: str,
        headers: dict[str, str] | None,
        correlation_id: str | None,
        how: SendOptions,
    ) -> AerobeePublishCommand:
        return AerobeePublishCommand(
            message,
            how=how,
            destination=topic,
            headers=headers,
            correlation_id=correlation_id or self.config.id_generator(),
        )


def _described(namesrv: str | Sequence[str] | None, description: str | None) -> BrokerSpec:
    """Return what AsyncAPI documents say of the broker."""
    shown = [namesrv] if isinstance(namesrv, str) else list(namesrv or [NAMESRV_ADDR])
    return BrokerSpec(
        description=description,
        url=shown,
        protocol="rocketmq",
        protocol_version=None,
        tags=(),
        security=None,
    )
