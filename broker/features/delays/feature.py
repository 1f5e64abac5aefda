"""Delayed messages as a feature: what waits, how far it was delivered, and who is told of it."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping

from aerobee.broker.features.delays.delivery import Clock, DelayService
from aerobee.broker.features.delays.offsets_file import DelayOffsetTable
from aerobee.broker.features.feature import Feature, Parts
from aerobee.broker.room import Sample, Work
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.net.routes import NoHeader, Outcome, Reply, Request, Routes

log = logging.getLogger(__name__)


class Delays(Feature):
    """Delays by RocketMQ's levels; switched off by an empty `messageDelayLevel`."""

    def __init__(self, parts: Parts) -> None:
        self._live = parts.live
        settings = parts.live.current
        self.offsets = DelayOffsetTable(wall_clock_ms, settings.config_dir)
        self.service = DelayService(
            parts.writing,
            settings.delay_levels_ms,
            Clock(wall_clock_ms, asyncio.get_running_loop().call_later),
            parts.cold.reads,
            parts.health.troubles.met,
        )
        self.service.progress.recover(self.offsets.load())
        self.placer = self.service
        self.files = (self.offsets.file,)
        self.answers = Routes("delays")
        self.answers.on(RequestCode.GET_ALL_DELAY_OFFSET)(self._all_offsets)

    async def start(self) -> None:
        """Deliver what is due."""
        self.service.start()

    async def stop(self) -> None:
        """Deliver nothing more."""
        self.service.stop()

    def close(self) -> OSError | None:
        """Write how far messages were delivered, all of which is on the disk now."""
        self.offsets.update(self.service.close())
        try:
            self.offsets.file.flush_now()
        except OSError as error:
            return error
        return None

    def background(self) -> Iterable[Work]:
        """Save the offsets now and then."""
        return (Work("delay offsets", self._save),)

    @property
    def metric_help(self) -> Mapping[str, str]:
        """Tell of those that wait."""
        return {
            "aerobee_delayed_messages": "Messages that wait for their delay level's time, by level",
        }

    def samples(self) -> Iterator[Sample]:
        """Yield how many messages wait in each level."""
        for level, (offset, end) in self.service.waiting().items():
            yield Sample("aerobee_delayed_messages", max(0, end - offset), {"level": str(level)})

    def runtime_info(self) -> Mapping[str, str]:
        """Return next offset to deliver and end of the queue of every level that was used."""
        return {
            f"scheduleMessageOffset_{level}": f"{offset},{end}"
            for level, (offset, end) in self.service.waiting().items()
        }

    async def _save(self) -> None:
        """Write how far messages were delivered, every `flushDelayOffsetInterval`."""
        while True:
            await asyncio.sleep(self._live.current.flush_delay_offset_interval / 1000)
            try:
                self.offsets.update(self.service.settled())
                await self.offsets.file.flush()
            except OSError:  # see TableFile.error
                pass
            except Exception:  # the next round tries again
                log.exception("delay_offsets_not_saved")

    def _all_offsets(self, _: object, request: Request[NoHeader]) -> Outcome:
        """Return how far each level was delivered, as the text of delayOffset.json."""
        return Reply(body=self.offsets.text(self.service.progress.offsets))


make = Delays
