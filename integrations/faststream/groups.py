"""The consumers of a broker: one for each group, whose subscribers share it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from faststream.exceptions import SetupError

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    LitePullConsumer,
    MessageModel,
    PushConsumer,
    PushSettings,
)

__all__ = ["GroupOptions", "Groups", "Subscribed"]


@dataclass(frozen=True, kw_only=True)
class GroupOptions:
    """What all subscribers of a group have to say alike."""

    consume_from: ConsumeFrom = ConsumeFrom.LAST
    model: MessageModel = MessageModel.CLUSTERING
    ordered: bool = False
    settings: PushSettings | None = None


@dataclass(frozen=True, kw_only=True)
class Subscribed:
    """What one subscriber wants of a topic, as `PushConsumer.subscribe` takes it."""

    topic: str
    tags: str = "*"
    sql: str | None = None
    batch: int | None = None


class _Group:
    """A consumer, and what it was made and subscribed with."""

    def __init__(self, consumer: PushConsumer, options: GroupOptions) -> None:
        self.consumer = consumer
        self.options = options
        self.topics: set[str] = set()


class Groups:
    """Makes a group's consumer for its first subscriber, and closes it with the last.

    The members of a group have to want the same: two consumers of one group in a process, each
    with topics of its own, would leave queues to each other that neither reads.
    """

    def __init__(
        self,
        namesrv: str | Sequence[str] | None,
        client: ClientSettings | None,
        settings: PushSettings | None,
        graceful_timeout_s: float | None,
    ) -> None:
        self._namesrv = namesrv
        self._client = client
        self._settings = settings or PushSettings(
            handover_timeout_ms=round((graceful_timeout_s or 0) * 1000)
        )
        self._groups: dict[str, _Group] = {}
        self._serving = False

    async def join(
        self, name: str, options: GroupOptions, wanted: Subscribed, handler: Any
    ) -> None:
        """Have a topic's messages handled in the name of a group, once it serves.

        Raises SetupError where another subscriber of the group has it, or wants other options.
        """
        group = self._groups.get(name)
        made = group is None
        if group is None:
            group = self._groups[name] = _Group(self._make(name, options), options)
        if group.options != options:
            raise SetupError(
                f"group {name!r}: its subscribers have to say the same of consume_from, model,"
                f" ordered and settings; {group.options} and {options} are not"
            )
        if wanted.topic in group.topics:
            raise SetupError(
                f"group {name!r} has a subscriber of topic {wanted.topic!r}: give that one several"
                " handlers with filters, or use another group"
            )
        size: Any = wanted.batch  # the handler is made for it, or for none
        group.consumer.subscribe(
            wanted.topic, handler, tags=wanted.tags, sql=wanted.sql, batch=size
        )
        group.topics.add(wanted.topic)
        if made and self._serving:
            await group.consumer.start()

    async def leave(self, name: str, topic: str) -> None:
        """Handle a topic no longer; the last one waits for running handlers and leaves the group.

        A topic that is not subscribed is no error.
        """
        group = self._groups.get(name)
        if group is None or topic not in group.topics:
            return
        group.topics.discard(topic)
        if group.topics:
            group.consumer.unsubscribe(topic)
        else:
            del self._groups[name]
            await group.consumer.close()

    async def serve(self) -> None:
        """Start all consumers; raises what one of them raises, and leaves those that run to close.

        Who joins from now on starts at once.
        """
        self._serving = True
        for group in list(self._groups.values()):
            await group.consumer.start()

    async def close(self) -> None:
        """Close all consumers at the same time: running handlers end, offsets are stored."""
        self._serving = False
        groups, self._groups = list(self._groups.values()), {}
        closing = [group.consumer.close() for group in groups]
        for outcome in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def _make(self, name: str, options: GroupOptions) -> PushConsumer:
        return PushConsumer(
            name,
            namesrv=self._namesrv,
            settings=options.settings or self._settings,
            client=self._client,
            consume_from=options.consume_from,
            model=options.model,
            ordered=options.ordered,
        )

    def poller(self, name: str, options: GroupOptions) -> LitePullConsumer:
        """Return a consumer for who asks for messages one by one."""
        return LitePullConsumer(
            name,
            namesrv=self._namesrv,
            client=self._client,
            consume_from=options.consume_from,
            model=options.model,
        )
