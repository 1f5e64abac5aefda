"""Questions to brokers that a silent one does not hold up, for other viewers least of all."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from aerobee.admin.calls import Answers
from aerobee.admin.client import AdminClient
from aerobee.client.cluster.directory import BrokerEntry
from aerobee.client.settings import ClientSettings
from aerobee.remoting.errors import AerobeeError, Unavailable

T = TypeVar("T")

SILENT_S: Final = 5.0
"""So long nobody waits again for a broker that did not answer."""


class ViewerAdmin(AdminClient):
    """An AdminClient that remembers who did not answer.

    Whoever asks several brokers is told at once of those that were silent within the last seconds;
    their turn comes again afterwards, or with the next sample that succeeds (`sight.py`).
    """

    def __init__(
        self,
        namesrv: str,
        settings: ClientSettings,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(namesrv, settings=settings)
        self.settings = settings
        """How it asks, for whoever needs a producer beside it."""
        self._clock_s = clock_s
        self._silent: dict[str, tuple[float, Unavailable]] = {}

    async def each(
        self,
        brokers: Sequence[BrokerEntry] | Mapping[str, str],
        question: Callable[[str], Awaitable[T]],
    ) -> Answers[T]:
        """Ask brokers side by side, without those of whom it is known that they are silent."""
        addresses = (
            dict(brokers)
            if isinstance(brokers, Mapping)
            else {entry.name: entry.address for entry in brokers}
        )
        passed = {
            name: error
            for name, address in addresses.items()
            if (error := self.silence(address)) is not None
        }
        asked = {name: address for name, address in addresses.items() if name not in passed}
        if not asked:
            for error in passed.values():
                raise error
        answers = await super().each(asked, lambda address: self.ask_noting(address, question))
        answers.failed.update(passed)
        return answers

    async def ask_noting(self, address: str, question: Callable[[str], Awaitable[T]]) -> T:
        """Ask one broker, and note whether it answers."""
        try:
            answer = await question(address)
        except Unavailable as error:
            self._silent[address] = self._clock_s() + SILENT_S, error
            raise
        except AerobeeError:
            self._silent.pop(address, None)
            raise
        self._silent.pop(address, None)
        return answer

    def silence(self, address: str) -> Unavailable | None:
        """Return what an address failed with that is not worth a question now."""
        found = self._silent.get(address)
        if found is None:
            return None
        until_s, error = found
        return error if self._clock_s() < until_s else None
