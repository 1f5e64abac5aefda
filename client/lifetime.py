"""From the start to the close: what every client that uses an instance has in common."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from types import TracebackType
from typing import ClassVar, Self

from aerobee.client.errors import InvalidUse
from aerobee.client.instance import ClientInstance


class Lifetime(ABC):
    """A client that may be used between `start` and `close`, best by `async with`.

    `_instance` is there from the start to the close, and `_leaving` true while closing takes time.
    """

    _role: ClassVar[str] = "consumer"  # as errors name it
    _instance: ClientInstance | None = None
    _leaving = False

    @abstractmethod
    async def start(self) -> None:
        """Make ready."""

    @abstractmethod
    async def close(self) -> None:
        """Stop; a second call does nothing."""

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

    @contextlib.asynccontextmanager
    async def _or_close(self) -> AsyncIterator[None]:
        """Close what a start has begun if the rest of it fails, or is cancelled."""
        try:
            yield
        except BaseException:
            await self.close()
            raise

    def _check_not_started(self) -> None:
        """Raise InvalidUse for a second start."""
        if self._instance is not None:
            raise InvalidUse(f"the {self._role} is started already")

    def _started(self) -> ClientInstance:
        """Return the instance of a client that is in use; raises InvalidUse."""
        if self._instance is None or self._leaving:
            raise InvalidUse(f"the {self._role} is not started, or closed; use `async with`")
        return self._instance
