"""A timer service over a small store, with a clock that a test moves."""

import asyncio
from pathlib import Path
from typing import Any

from aerobee.broker.features.timers.placing import TimerPlacer
from aerobee.broker.features.timers.saving import TimerFiles
from aerobee.broker.features.timers.service import TimerService, TimeSource
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.writing.appender import Appender
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.queues import AckStyle, TopicQueues
from aerobee.broker.writing.stamps import Stamp
from aerobee.broker.writing.tick import Tick
from aerobee.remoting.message.properties import format_properties
from aerobee.remoting.message.record import host_bytes
from aerobee.storage.disk.files import Files
from support.disks.logs import NOW_MS, opened, small
from support.features.delays import BORN, Clock

TIMES = {"TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"}


class Timers:
    """A store with a timer service; `begin` again on the same folder is a restart.

    It begins at once unless it is not to be `running`.
    """

    def __init__(
        self, root: Path, files: Files | None = None, *, running: bool = True, **settings: Any
    ) -> None:
        self.root = root
        self.keys = BrokerSettings(
            store_path_root_dir=root, broker_name="b", timer_flush_interval_ms=1,
            mapped_file_size_timer_log=settings.pop("log_file_bytes", 4096), **settings,
        )  # fmt: skip
        self.settings = small(
            root, segment_bytes=1 << 20, window_bytes=1 << 18, first_window_bytes=1 << 18
        )
        self.clock = Clock()
        if running:
            self.begin(files)

    def begin(self, files: Files | None = None) -> None:
        """Open the store and start the service, as a broker does."""
        self.store = store = opened(self.settings, files)
        self.tick = Tick(asyncio.get_running_loop(), store)
        self.queues = TopicQueues(store, AckStyle("r", False, "00"))
        self.appender = Appender(store, self.tick)
        writing = Writing(store, self.queues, self.tick, self.appender, bytes(8))
        source = TimeSource(self.clock.now_ms, self.clock.call_later)
        self.service = TimerService(writing, self._keys, source)
        self.files = TimerFiles(writing, self.service, self.root / "config")
        self.files.recover(self.clock.now_ms())
        self.placer = TimerPlacer(writing, self._keys, self.service)
        self.service.start()

    def _keys(self) -> BrokerSettings:
        return self.keys

    async def save(self) -> None:
        """Write a note, of which the disk has the log."""
        self.store.commit_log.commit()
        self.store.flusher.flush_all(5)
        await self.files.save()

    def stop(self) -> None:
        """Stop cleanly."""
        self.service.stop()
        self.store.close()
        assert self.files.close() is None
        self.clock.calls.clear()

    def die(self) -> None:
        """End as a killed process does."""
        self.service.stop()
        self.service.index.close()
        self.store.abandon()
        self.clock.calls.clear()

    def send(
        self, body: bytes, after_ms: int = 1000, topic: str = "T", queue_id: int = 0, **pairs: str
    ) -> int:
        """Store a message that waits, by TIMER_DELAY_MS; return its position."""
        if not TIMES & pairs.keys():
            pairs["TIMER_DELAY_MS"] = str(after_ms)
        properties = {"UNIQ_KEY": body.decode(), **pairs}
        now_ms = self.clock.now_ms()
        place = self.placer.elsewhere(properties, topic, queue_id, now_ms)
        queue = self.queues.get(topic, queue_id) if place is None else place.queue
        code = 0 if place is None else place.tags_code
        stamp = Stamp(host_bytes(*BORN), host_bytes("10.0.0.1", 10911))
        text = format_properties(properties).encode()
        (position,) = self.appender.append(
            queue, 0, NOW_MS - 5, stamp.at(now_ms, 2), [(7, body, text, code)]
        )
        if place is not None:
            place.appended()
        self.store.commit_log.commit()
        return position
