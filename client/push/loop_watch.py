"""Finds the handlers that hold the event loop, while which nothing else of the program runs."""

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aerobee.client.push.handling import Running

log = logging.getLogger(__name__)

HELD_S: Final = 1.0  # that is told
BEAT_S: Final = 0.5
TOLD_EVERY_S: Final = 30.0  # for each topic
TOPICS_MAX: Final = 1_000  # that are remembered


class LoopWatch:
    """A timer that notices when it is late, and handlers that took long while it did not come.

    A call of a second within which the timer never came has held the loop all that time. One that
    waits at first, and holds the loop then, is found by who runs when the timer comes late at last.
    It costs a message one comparison, and the loop two calls a second.
    """

    def __init__(self, group: str, running: "Sequence[Running]") -> None:
        self._group = group
        self._running = running
        self._loop = asyncio.get_running_loop()
        self._beat_s = self._loop.time()  # when the timer came last
        self._told: dict[str, tuple[float, int]] = {}  # by topic: when, and how often since
        self._timer = self._loop.call_at(self._beat_s + BEAT_S, self._beat)

    def stop(self) -> None:
        """Watch no more."""
        self._timer.cancel()

    def took_long(self, topic: str, since_s: float, spent_s: float) -> None:
        """Judge a call that began at `since_s`, by the loop's clock, and took over HELD_S."""
        if self._beat_s <= since_s:
            self._tell(topic, spent_s)
            self._beat_s = self._loop.time()  # it is told: the timer's delay is no more news

    def _beat(self) -> None:
        now_s = self._loop.time()
        late_s = now_s - self._beat_s - BEAT_S
        began_before_s = now_s - late_s
        if late_s >= HELD_S:
            topics = {
                running.messages[0].topic
                for running in self._running
                if running.process is not None and running.since_s <= began_before_s
            }
            if topics:
                self._tell(" or ".join(sorted(topics)), late_s)
        self._beat_s = now_s
        self._timer = self._loop.call_at(now_s + BEAT_S, self._beat)

    def _tell(self, topic: str, seconds: float) -> None:
        now_s = self._loop.time()
        told_s, times = self._told.get(topic, (now_s - TOLD_EVERY_S, 0))
        if now_s - told_s < TOLD_EVERY_S:
            self._told[topic] = told_s, times + 1
            return
        if len(self._told) >= TOPICS_MAX:
            self._told.clear()
        self._told[topic] = now_s, 0
        log.warning(
            "handler of topic %s held the loop for %.1f s%s: nothing else ran meanwhile. Let it"
            " await what takes time, or make it a plain function, which runs in a thread group=%s",
            topic,
            seconds,
            f", and {times} times before" if times else "",
            self._group,
        )
