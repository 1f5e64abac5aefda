"""The decorators of brokers and routers."""

from collections.abc import Iterable, Sequence
from typing import Any, Unpack, cast

from fast_depends.dependencies import Dependant
from faststream._internal.broker.registrator import Registrator
from faststream._internal.broker.router import ArgsContainer, BrokerRouter, SubscriberRoute
from faststream._internal.constants import EMPTY
from faststream._internal.parser import CodecProto
from faststream._internal.types import BrokerMiddleware, CustomCallable
from faststream.middlewares import AckPolicy

from aerobee.client import ConsumeFrom, MessageModel, PushSettings
from aerobee.integrations.faststream.config import AerobeeBrokerConfig
from aerobee.integrations.faststream.groups import GroupOptions, Subscribed
from aerobee.integrations.faststream.publisher import (
    AerobeePublisher,
    AerobeePublisherConfig,
    AerobeePublisherSpecification,
    AnswerSpecificationConfig,
)
from aerobee.integrations.faststream.response import SendOptions
from aerobee.integrations.faststream.subscriber import (
    AerobeeSubscriber,
    AerobeeSubscriberConfig,
    TopicSpecificationConfig,
    make_subscriber,
)

__all__ = ["AerobeeRegistrator", "AerobeeRoute", "AerobeeRoutePublisher", "AerobeeRouter"]


class AerobeeRegistrator(Registrator[Any, AerobeeBrokerConfig]):
    """What may be subscribed and published, in a broker as in a router."""

    def subscriber(  # type: ignore[override]
        self,
        topic: str,
        *,
        group: str | None = None,
        tags: str = "*",
        sql: str | None = None,
        batch: int | None = None,
        consume_from: ConsumeFrom = ConsumeFrom.LAST,
        model: MessageModel = MessageModel.CLUSTERING,
        ordered: bool = False,
        settings: PushSettings | None = None,
        ack_policy: AckPolicy = EMPTY,
        no_reply: bool = False,
        dependencies: Sequence[Dependant] = (),
        parser: CustomCallable | None = None,
        decoder: CustomCallable | None = None,
        codec: CodecProto | None = None,
        persistent: bool = True,
        title: str | None = None,
        description: str | None = None,
        include_in_schema: bool = True,
    ) -> AerobeeSubscriber:
        """Have a topic's messages handled by the decorated function.

            @broker.subscriber("orders", group="billing", tags="new || paid")
            async def bill(order: Order) -> None: ...

        `tags`, `sql` and `batch` are as for `PushConsumer.subscribe`: with a batch the handler gets
        a list. `consume_from`, `model`, `ordered` and `settings` are those of the group's
        `PushConsumer`, which all its subscribers share and have to say alike.

        A message is done when its handler returns, and comes again when it raises: see the result.
        """
        config = cast(AerobeeBrokerConfig, self.config)
        told = {"title_": title, "description_": description}
        documented = TopicSpecificationConfig(
            topic=topic, include_in_schema=include_in_schema, **told
        )
        options = GroupOptions(
            consume_from=consume_from, model=model, ordered=ordered, settings=settings
        )
        subscriber = make_subscriber(
            AerobeeSubscriberConfig(
                _outer_config=config,
                _ack_policy=ack_policy,
                no_reply=no_reply,
                wanted=Subscribed(topic=topic, tags=tags, sql=sql, batch=batch),
                group=group,
                options=options,
            ),
            documented,
        )
        super().subscriber(subscriber, persistent=persistent)
        return subscriber.add_call(
            parser_=parser or self._parser,
            decoder_=decoder or self._decoder,
            codec_=codec,
            dependencies_=dependencies,
        )

    def publisher(  # type: ignore[override]
        self,
        topic: str,
        *,
        headers: dict[str, str] | None = None,
        persistent: bool = True,
        title: str | None = None,
        description: str | None = None,
        schema: Any | None = None,
        include_in_schema: bool = True,
        **how: Unpack[SendOptions],
    ) -> AerobeePublisher:
        """Publish what the decorated handler returns, or by `publish` of what this returns.

            @broker.publisher("billed", tags="new")
            @broker.subscriber("orders", group="billing")
            async def bill(order: Order) -> Bill: ...

        An `AerobeeResponse` says otherwise for one answer.
        """
        config = cast(AerobeeBrokerConfig, self.config)
        documented = AnswerSpecificationConfig(
            topic=topic,
            schema_=schema,
            title_=title,
            description_=description,
            include_in_schema=include_in_schema,
        )
        publisher = AerobeePublisher(
            AerobeePublisherConfig(
                _outer_config=config, topic=topic, headers=headers or {}, how=how
            ),
            AerobeePublisherSpecification(config, documented),
        )
        super().publisher(publisher, persistent=persistent)
        return publisher

    def include_router(self, router: Any, **options: Any) -> None:
        """Take in what a router has; raises TypeError for another broker's."""
        if not isinstance(router, AerobeeRegistrator):
            raise TypeError(f"{type(router).__name__} is no AerobeeRouter")
        super().include_router(router, **options)


class AerobeeRoutePublisher(ArgsContainer):
    """A publisher of an AerobeeRoute: the arguments of `publisher`."""


class AerobeeRoute(SubscriberRoute):
    """A handler of a router without a decorator: AerobeeRoute(bill, "orders", group="billing")."""


class AerobeeRouter(AerobeeRegistrator, BrokerRouter[Any, AerobeeBrokerConfig]):
    """Subscribers and publishers that a broker takes in, their topics behind a prefix.

    router = AerobeeRouter("eu-")
    broker.include_router(router)
    """

    def __init__(
        self,
        prefix: str = "",
        handlers: Iterable[AerobeeRoute] = (),
        *,
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any, Any]] = (),
        **more: Any,
    ) -> None:
        """Describe a router; `more` are `routers`, `parser`, `decoder`, `include_in_schema` and
        `ack_policy`, as FastStream's other routers have them."""
        super().__init__(
            handlers=handlers,
            config=AerobeeBrokerConfig(
                prefix=prefix,
                broker_dependencies=dependencies,
                broker_middlewares=middlewares,
                broker_parser=more.pop("parser", None),
                broker_decoder=more.pop("decoder", None),
                include_in_schema=more.pop("include_in_schema", None),
                ack_policy=more.pop("ack_policy", EMPTY),
            ),
            routers=more.pop("routers", ()),
        )
        if more:
            raise TypeError(f"AerobeeRouter takes no {', '.join(more)}")
