"""Messages with a time of their own as a feature: what waits, and who is told of it."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from aerobee.broker.features.feature import Feature, Parts
from aerobee.broker.features.timers.placing import TimerPlacer
from aerobee.broker.features.timers.saving import TimerFiles
from aerobee.broker.features.timers.service import TimerService, TimeSource
from aerobee.broker.room import Distribution, Sample, Work
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.net.routes import NoHeader, Outcome, Reply, Request, Routes
from aerobee.storage.features.timers.codecs import PRECISION_MS, encode_check

log = logging.getLogger(__name__)

DELAY: Final = "rocketmq_delay_message_latency_seconds"
DISK: Final = {"storage_type": "local", "storage_medium": "disk"}


class Timers(Feature):
    """Delays to the millisecond, and taking back; switched off by `timerWheelEnable=false`."""

    def __init__(self, parts: Parts) -> None:
        live, writing = parts.live, parts.writing
        self.service = TimerService(
            writing,
            lambda: live.current,
            TimeSource(wall_clock_ms, asyncio.get_running_loop().call_later),
            parts.cold.reads,
            parts.health.troubles.met,
        )
        self._saving = TimerFiles(writing, self.service, live.current.config_dir)
        self._saving.recover(wall_clock_ms())
        self._live = live
        self._topics = parts.tables.topics
        self._warned = live.current.retention_warnings(timers=True)  # at the start
        live.on_change(self._apply)
        self.placer = TimerPlacer(writing, lambda: live.current, self.service)
        self.answers = Routes("timers")
        self.answers.on(RequestCode.GET_TIMER_CHECK_POINT)(self._check_point)
        self.answers.on(RequestCode.GET_TIMER_METRICS)(self._metrics)

    def _apply(self, settings: BrokerSettings) -> None:
        """Take settings that were changed at run time; say what may cost those that wait."""
        self.service.look_again()
        warnings = settings.retention_warnings(timers=True)
        if warnings != self._warned:
            for warning in warnings:
                log.warning("retention_is_short: %s", warning)
            self._warned = warnings

    async def start(self) -> None:
        """Deliver what is due."""
        self.service.start()

    async def stop(self) -> None:
        """Deliver nothing more."""
        self.service.stop()

    def close(self) -> OSError | None:
        """Write what waits as it is now; the log is closed, and all of it on the disk."""
        return self._saving.close()

    def background(self) -> Iterable[Work]:
        """Write what has changed, now and then."""
        return (Work("timer files", self._save),)

    async def _save(self) -> None:
        """Write what has changed, every `timerFlushIntervalMs` at most."""
        while True:
            await self._saving.wait()
            await asyncio.sleep(self._live.current.timer_flush_interval_ms / 1000)
            await self._saving.save()

    @property
    def metric_help(self) -> Mapping[str, str]:
        """Tell of those that wait, of those that came and went, and of what is behind."""
        return {
            "rocketmq_timing_messages": "Messages that wait for a time of their own, by topic",
            "rocketmq_timer_enqueue_total": "Messages that got a slot since the start, by topic",
            "rocketmq_timer_dequeue_total": "Messages that were delivered since the start",
            "rocketmq_timer_enqueue_lag": "Messages that wait and have no slot yet",
            "rocketmq_timer_enqueue_latency_milliseconds": "Since when there was no slot for them",
            "rocketmq_timer_dequeue_lag": "Messages that wait in slots",
            "rocketmq_timer_dequeue_latency_milliseconds": "Since the second that is delivered",
            DELAY: "How long messages are to wait, by topic",
        }

    def samples(self) -> Iterator[Sample]:
        """Yield how many messages wait for each topic, and the rest."""
        service, index = self.service, self.service.index
        behind, waiting = (index.behind, index.waiting) if index.used else (0, 0)
        late_ms = max(0, wall_clock_ms() - service.passed.taken_ms) if behind else 0
        yield Sample("rocketmq_timer_enqueue_lag", behind, DISK)
        yield Sample("rocketmq_timer_enqueue_latency_milliseconds", late_ms, DISK)
        yield Sample("rocketmq_timer_dequeue_lag", waiting, DISK)
        behind_ms = self._behind_ms()
        yield Sample("rocketmq_timer_dequeue_latency_milliseconds", behind_ms, DISK)
        for name, counts in (
            ("rocketmq_timing_messages", service.counts.current()),
            ("rocketmq_timer_enqueue_total", service.passed.enqueued),
            ("rocketmq_timer_dequeue_total", service.passed.delivered),
        ):
            for topic, count in list(counts.items()):
                if self._topics.get(topic) is not None:
                    yield Sample(name, max(0, count), {"topic": topic} | DISK)

    def distributions(self) -> Iterator[Distribution]:
        """Yield how long messages are to wait, for each topic."""
        for topic, times in list(self.service.passed.delays.items()):
            if self._topics.get(topic) is not None:
                yield Distribution(DELAY, times, {"topic": topic} | DISK)

    def runtime_info(self) -> Mapping[str, str]:
        """Return RocketMQ's lines of `brokerStatus`."""
        index = self.service.index
        return {
            "timerReadBehind": str(self._behind_ms() // PRECISION_MS),
            "timerOffsetBehind": str(index.behind),
            "timerCongestNum": str(index.waiting),
        }

    def shown(self) -> Mapping[str, Any]:
        """Return what `/api/broker` says of what waits."""
        index = self.service.index
        return {
            "timers": {
                "waiting": index.waiting,
                "withoutSlot": index.behind,
                "behindMs": self._behind_ms(),
                "topics": self.service.counts.current(),
            }
        }

    def _behind_ms(self) -> int:
        """Return how far the first second that has messages lies behind (ms)."""
        index = self.service.index
        first_s = index.wheel.next_used(index.read_s) if index.used else None
        if first_s is None:
            return 0
        return max(0, wall_clock_ms() - (first_s + 1) * PRECISION_MS)

    def _check_point(self, _: object, request: Request[NoHeader]) -> Outcome:
        """Return the 56 bytes of `timercheck`."""
        return Reply(body=encode_check(self.service.index.check))

    def _metrics(self, _: object, request: Request[NoHeader]) -> Outcome:
        """Return the text of `timermetrics`."""
        return Reply(body=self.service.counts.text())


make = Timers
