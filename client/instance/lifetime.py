"""From the start to the close: what every client that uses an instance has in common."""

import asyncio
import contextlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self

from aerobee.client.errors import InvalidUse, whole_number
from aerobee.client.finding.found import FoundMessages
from aerobee.client.finding.search import Search, find
from aerobee.client.instance.client_instance import ClientInstance


class Lifetime(ABC):
    """A client that may be used between `start` and `close`, best by `async with`.

    `_instance` is there from the first moment of a start to the end of the close, and `_leaving`
    true while closing takes time.
    """

    _role: ClassVar[str] = "consumer"  # as errors name it
    _instance: ClientInstance | None = None
    _leaving = False
    _ended: asyncio.Future[None] | None = None  # done when the close that is under way is
    _closed = 0  # how many times: tells a start from the next one, on an instance that is shared
    _over: asyncio.Event | None = None  # set at the end of the next close, where somebody waits

    @property
    def consumes(self) -> bool:
        """Whether this is a consumer of whatever kind."""
        return self._role == "consumer"

    def __repr__(self) -> str:
        """Show whose client it is, and whether it is in use: <PushConsumer 'orders': started>."""
        return f"<{self._named()}: {self._state()}>"

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        """Name a client that nobody has closed, where Python shows ResourceWarnings."""
        if self._instance is not None and not self._leaving:
            _warn(f"unclosed {self._named()}", ResourceWarning, stacklevel=1, source=self)

    def _named(self) -> str:
        return f"{type(self).__name__} {getattr(self, 'group', '')!r}"

    def _state(self) -> str:
        if self._instance is None:
            return "closed" if self._closed else "not started"
        return "closing" if self._leaving else "started"

    def trouble(self) -> list[str]:
        """Say in words what fails at the moment; empty while the client is started and all is well.

            print(producer.trouble())  # ['connection to broker-a (127.0.0.1:10911): refused']

        It asks nobody: it tells what the client has seen since it was last used, or beat. What
        brokers and nameservers it cannot reach is among it though a send may find others; so is a
        client that is not started, or closed.
        """
        if self._instance is None or self._leaving:
            return [f"it is {Lifetime._state(self)}"]
        reasons = self._instance.routes.outages.reasons()
        return [f"{what}: {why}" for what, why in reasons.items() if self._concerns(what)]

    def _concerns(self, what: str) -> bool:
        """Whether a failure is this client's trouble: others may share its instance."""
        return " group " not in what

    @abstractmethod
    async def start(self) -> None:
        """Make ready."""

    @abstractmethod
    async def close(self) -> None:
        """Stop; a second call waits for the first, a later one does nothing."""

    if not TYPE_CHECKING:  # checkers find it by themselves

        def __enter__(self) -> None:
            """Say what to write instead: the mistake of who comes from blocking clients."""
            raise TypeError(
                f"a {type(self).__name__} of aerobee.client is used by `async with`; the one of"
                " aerobee.client.sync by `with`"
            )

        def __exit__(self, *_: object) -> None:
            """Complete what `__enter__` says."""

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self.close()

    async def wait_closed(self) -> None:
        """Wait until somebody has closed this client; at once where it is not started."""
        if self._instance is None:
            return
        if self._over is None:
            self._over = asyncio.Event()
        await self._over.wait()

    async def find(
        self,
        topic: str,
        *,
        key: str | None = None,
        message_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        messages_max: int = 64,
        timeout_ms: int | None = None,
    ) -> FoundMessages:
        """Find the messages of a topic that have a key, or an id, the oldest first.

            for message in await consumer.find("orders", key="order-1"):
                print(message.queue, message.queue_offset, message.body)

        `message_id` is the one that the client gave, or the broker's. Of more than `messages_max`
        the newest are found; `since` and `until` are store times with a time zone. All brokers are
        asked at the same time, over connections of their own, for `timeout_ms` (default 6,000);
        `failed` of the answer names those that could not be asked. Brokers keep an index unless
        `messageIndexEnable` says no. Raises InvalidMessage for a bad topic, InvalidUse,
        RouteMissing, and where no broker could be asked what the first one failed with: Unavailable
        or BrokerRefused.
        """
        search = Search.of(topic, key, message_id, (since, until), messages_max)
        if timeout_ms is not None:
            whole_number("timeout_ms", timeout_ms)
        instance = self._started()
        budget_ms = instance.settings.find_timeout_ms if timeout_ms is None else timeout_ms
        return await find(instance.as_stranger, search, budget_ms)

    @contextlib.asynccontextmanager
    async def _or_close(self) -> AsyncIterator[Callable[[], None]]:
        """Close what a start has begun if the rest of it fails, or is cancelled.

        What is yielded lets the start go on after it has waited; it raises InvalidUse where
        somebody has closed the client meanwhile, and so does the end. What was started again since
        stays as it is.
        """
        before = self._closed

        def go_on() -> None:
            if self._leaving or self._closed != before:
                raise InvalidUse(f"the {self._role} was closed while it started")

        try:
            yield go_on
            go_on()
        except BaseException:
            if self._closed == before:
                await self.close()
            raise

    async def _close_once(self, leave: Callable[[ClientInstance], Awaitable[None]]) -> None:
        """Leave the instance, and be closed whatever comes of that; who comes second waits."""
        instance = self._instance
        if self._ended is not None:
            await asyncio.wait([self._ended])
            return
        if instance is None:
            return
        if instance.loop is not asyncio.get_running_loop():
            if not instance.loop.is_closed():
                raise InvalidUse(self._foreign(instance))
            self._instance = None  # its connections ended with their loop
            self._closed += 1
            return
        ended = self._ended = asyncio.get_running_loop().create_future()
        self._leaving = True
        try:
            await leave(instance)
        finally:
            self._instance, self._leaving, self._ended = None, False, None
            self._closed += 1
            ended.set_result(None)
            if self._over is not None:
                self._over.set()
                self._over = None

    def _check_not_started(self) -> None:
        """Raise InvalidUse for a second start."""
        if self._instance is not None:
            raise InvalidUse(f"the {self._role} is started already")

    def _started(self) -> ClientInstance:
        """Return the instance of a client that is in use, in its event loop; raises InvalidUse."""
        instance = self._instance
        if instance is None or self._leaving:
            what = "is closed" if self._leaving or self._closed else "is not started"
            raise InvalidUse(f"the {self._role} {what}; use `async with`, or `start`")
        if instance.loop is not asyncio.get_running_loop():
            raise InvalidUse(self._foreign(instance))
        return instance

    def _foreign(self, instance: ClientInstance) -> str:
        """Say that a client is used in another event loop than its own."""
        which = "which has ended" if instance.loop.is_closed() else "which runs elsewhere"
        return (
            f"the {self._role} was started in another event loop, {which}: start one in each, most"
            " simply by one asyncio.run for the whole program"
        )
