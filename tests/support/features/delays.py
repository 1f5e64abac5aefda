"""A delay service over a small store, with a clock that a test moves."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aerobee.broker.features.delays.delivery import Clock as ServiceClock
from aerobee.broker.features.delays.delivery import DelayService
from aerobee.broker.writing.appender import Appender
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.queues import AckStyle, TopicQueues
from aerobee.broker.writing.stamps import Stamp
from aerobee.broker.writing.tick import Tick
from aerobee.remoting.message.properties import format_properties
from aerobee.remoting.message.record import host_bytes
from aerobee.storage.disk.files import Files
from support.disks.logs import NOW_MS, opened, small

LEVELS_MS = (1_000, 5_000, 60_000)
BORN = ("10.0.0.7", 4000)


class Call:
    """One call that was asked for."""

    def __init__(self, due_ms: float, run: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.run = run
        self.cancelled = False

    def cancel(self) -> None:
        """Forget it."""
        self.cancelled = True


class Clock:
    """The time of day, which may be set, and a timer that knows how much time has passed."""

    def __init__(self) -> None:
        self.wall_ms = NOW_MS
        self.passed_ms = 0.0
        self.calls: list[Call] = []

    def now_ms(self) -> int:
        """Return the time of day."""
        return self.wall_ms

    def call_later(self, seconds: float, run: Callable[[], None]) -> Call:
        """Remember a call."""
        call = Call(self.passed_ms + seconds * 1000, run)
        self.calls.append(call)
        return call

    @property
    def pending(self) -> list[Call]:
        """The calls that are still to come, the next one first."""
        self.calls = [call for call in self.calls if not call.cancelled]
        return sorted(self.calls, key=lambda call: call.due_ms)

    def advance(self, ms: int) -> None:
        """Let time pass; calls happen at their moments."""
        end = self.passed_ms + ms
        while (pending := self.pending) and pending[0].due_ms <= end:
            call = pending[0]
            self.calls.remove(call)
            self._to(max(call.due_ms, self.passed_ms))
            call.run()
        self._to(end)

    def _to(self, passed_ms: float) -> None:
        self.wall_ms += round(passed_ms - self.passed_ms)
        self.passed_ms = passed_ms


class Delays:
    """A store with a delay service; `begin` again on the same folder is a restart."""

    def __init__(self, root: Path, files: Files | None = None, **settings: Any) -> None:
        settings = {"segment_bytes": 1 << 20, "delay_levels_ms": LEVELS_MS, **settings}
        self.settings = small(root, window_bytes=1 << 18, first_window_bytes=1 << 18, **settings)
        self.clock = Clock()
        self.begin(files)

    def begin(self, files: Files | None = None, hint: dict[int, int] | None = None) -> None:
        """Open the store and start the service, as a broker does."""
        self.store = store = opened(self.settings, files)
        self.tick = Tick(asyncio.get_running_loop(), store)
        self.queues = TopicQueues(store, AckStyle("r", False, "00"))
        self.appender = Appender(store, self.tick)
        self.service = DelayService(
            Writing(store, self.queues, self.tick, self.appender, bytes(8)),
            self.settings.delay_levels_ms,
            ServiceClock(self.clock.now_ms, self.clock.call_later),
        )  # fmt: skip
        self.service.progress.recover(hint or {})
        self.service.start()

    def die(self) -> None:
        """End as a killed process does."""
        self.store.abandon()
        self.clock.calls.clear()

    def delay(
        self, body: bytes, level: int = 1, topic: str = "T", queue_id: int = 0, **pairs: str
    ) -> int:
        """Store a message that waits; return its position."""
        properties = {"UNIQ_KEY": body.decode(), "DELAY": str(level), **pairs}
        now_ms = self.clock.now_ms()
        place = self.service.elsewhere(properties, topic, queue_id, now_ms)
        assert place is not None
        stamp = Stamp(host_bytes(*BORN), host_bytes("10.0.0.1", 10911))
        text = format_properties(properties).encode()
        (position,) = self.appender.append(
            place.queue, 0, NOW_MS - 5, stamp.at(now_ms, 2), [(7, body, text, place.tags_code)]
        )
        place.appended()
        self.store.commit_log.commit()
        return position
