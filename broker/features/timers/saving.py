"""Brings what waits to the disk: a note at a time, and what a stop leaves to other brokers."""

import asyncio
import logging
from collections.abc import Container
from functools import partial
from pathlib import Path

from aerobee.broker.features.timers.service import TimerService
from aerobee.broker.writing.parts import Writing
from aerobee.remoting.config.kept_files import load_kept_file, replace_file
from aerobee.storage.features.timers.codecs import DELETE, PRECISION_MS, ROLL, Unit
from aerobee.storage.features.timers.index import TimersShot
from aerobee.storage.features.timers.recovery import TimerRecovery

log = logging.getLogger(__name__)

TRIM_NOTES = 30  # files of the timer log that are too old go with every so manieth note
COMPARED_WAIT_NOTES = 60
"""So many notes are left out while it is in memory alone what another broker has delivered."""


class TimerFiles:
    """Writes notes beside the loop, one at a time, and the last one when the store is closed."""

    def __init__(self, writing: Writing, service: TimerService, config_dir: Path) -> None:
        self._store = writing.store
        self._tick = writing.tick
        self._service = service
        self._index = service.index
        self._metrics_path = config_dir / "timermetrics"
        self._changed = asyncio.Event()
        self._notes = 0
        self._failed = False
        self._waited = 0  # notes that were left out
        service.on_changed = self._changed.set

    def recover(self, now_ms: int) -> None:
        """Find out what waits; the store is open."""
        recovery = TimerRecovery(self._store, self._index)
        recovery.run(now_ms // PRECISION_MS)
        text = recovery.counts
        if self._index.used and not text:
            text = load_kept_file(self._metrics_path, bytes) or b""
        self._service.counts.load(text)
        if self._index.used:
            self._changed.set()

    async def wait(self) -> None:
        """Return when there is something to write."""
        await self._changed.wait()

    async def save(self) -> None:
        """Write what has changed, once the disk has the log up to now."""
        self._changed.clear()
        index, commit_log = self._index, self._store.commit_log
        if self._store.read_only or not self._tick.commit_log() or commit_log.losses:
            return  # what is in memory is believed no more: the next start finds out
        if not index.changed:
            return
        if index.compared and self._waited < COMPARED_WAIT_NOTES:
            self._waited += 1  # the start after this one has to compare as well
            self._changed.set()
            return
        self._notes += 1
        if self._notes % TRIM_NOTES == 0:
            index.log.trim(commit_log.begin)
        try:
            if self._failed:
                index.read_check()  # it may have been written, or not
        except OSError as error:
            return self._not_written(error)
        shot = index.snapshot(self._service.counts.text(noted=True), self._service.now_ms())
        text = self._service.counts.text()
        if not await self._on_disk(shot.position):
            self._changed.set()
            return
        try:
            await asyncio.to_thread(self._write, shot, text)
        except OSError as error:
            return self._not_written(error)
        self._failed = False
        index.wrote(shot)

    def _not_written(self, error: OSError) -> None:
        """Try again with the next note; what no file has is in memory."""
        self._changed.set()
        if not self._failed:
            self._failed = True
            log.error("timers_not_written error=%s", error)

    async def _on_disk(self, position: int) -> bool:
        """Return when the disk has the log up to a position; False when it takes too long."""
        flushed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def done(ok: bool) -> None:
            if not flushed.done():
                flushed.set_result(ok)

        self._store.flusher.request(position, done)
        return await flushed

    def _write(self, shot: TimersShot, text: bytes) -> None:
        self._index.write(shot)
        replace_file(self._metrics_path, text)

    def close(self) -> OSError | None:
        """Write the last note; return what kept it from that.

        Of the second that is half delivered the timer log keeps what is left, so that RocketMQ does
        not deliver the other half once more.
        """
        index, commit_log = self._index, self._store.commit_log
        self._service.stop()
        unflushed = commit_log.flushed_position < commit_log.committed or index.compared
        if not index.used or self._store.read_only or commit_log.losses or unflushed:
            index.close()
            return None
        try:
            self._write_now()
            if half_delivered := self._service.half_delivered():
                for second in half_delivered:
                    waits = partial(_waits, second.left())
                    index.relink(second.time_s, waits, doubted=second.is_swept)
                self._service.counts.settle()
                self._write_now()
        except OSError as error:
            log.error("timers_not_written error=%s", error)
            return error
        finally:
            index.close()
        return None

    def _write_now(self) -> None:
        index = self._index
        index.read_check()
        shot = index.snapshot(self._service.counts.text(noted=True), self._service.now_ms())
        self._write(shot, self._service.counts.text())
        index.wrote(shot)


def _waits(left: Container[int], unit: Unit) -> bool:
    return unit.position in left or unit.magic & (DELETE | ROLL) == DELETE
