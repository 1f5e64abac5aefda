"""Answers that several viewers want within a second: asked for once, and kept that long."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, TypeVar

import msgspec

from aerobee.remoting.errors import AerobeeError, Unavailable
from aerobee.remoting.net.single_flight import SingleFlight

T = TypeVar("T")

AGE_S: Final = 1.0
ANSWERS_MAX: Final = 256
SLACK_S: Final = 0.1
"""Between the ages that a loop's clock and ours give an answer."""
TIMEOUT_S: Final = 15.0
"""After which a question is given up, whatever it consists of."""


class _Kept(msgspec.Struct):
    until_s: float
    answer: Any
    error: AerobeeError | None


class KeptAnswers:
    """Answers by what was asked; an error is one, too, so that a refusal is not asked for often."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._kept: dict[Hashable, _Kept] = {}
        self._asked: dict[Hashable, SingleFlight[Any]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()  # those of before a change, too

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._kept)

    async def get(
        self, key: Hashable, question: Callable[[], Awaitable[T]], age_s: float = AGE_S
    ) -> T:
        """Return an answer that is at most `age_s` old; raises what the question raised.

        Who asks while it is being asked waits for the same answer.
        """
        kept = self._kept.get(key)
        if kept is None or kept.until_s <= self._clock_s():
            flight = self._asked.get(key)
            if flight is None:
                flight = SingleFlight(self._ask(key, question, age_s))
                self._asked[key] = flight
                self._tasks.add(flight.task)
                flight.task.add_done_callback(self._tasks.discard)
            kept = await flight.wait()
        if kept.error is not None:
            raise kept.error
        answer: T = kept.answer
        return answer

    def forget(self) -> None:
        """Ask anew for everything: something was changed."""
        self._kept.clear()
        self._asked.clear()

    async def close(self) -> None:
        """Give up what is being asked."""
        tasks = list(self._tasks)
        self.forget()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(
        self, key: Hashable, question: Callable[[], Awaitable[Any]], age_s: float
    ) -> _Kept:
        mine = asyncio.current_task()
        kept = _Kept(0.0, None, None)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                kept.answer = await question()
        except TimeoutError:
            kept.error = Unavailable(f"the brokers have not answered within {TIMEOUT_S:g} s")
        except AerobeeError as error:
            kept.error = error
        finally:
            flight = self._asked.get(key)
            is_current = flight is not None and flight.task is mine
            if is_current:
                del self._asked[key]
        kept.until_s = self._clock_s() + age_s
        if is_current:  # else something was changed since it was asked
            self._kept.pop(key, None)
            while len(self._kept) >= ANSWERS_MAX:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = kept
            asyncio.get_running_loop().call_later(age_s + SLACK_S, self._drop, key, kept)
        return kept

    def _drop(self, key: Hashable, kept: _Kept) -> None:
        """Let go of what nobody is told any more; of many queues it is tens of megabytes."""
        if self._kept.get(key) is kept and kept.until_s <= self._clock_s():
            del self._kept[key]
