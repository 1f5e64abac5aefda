"""Delayed messages as a feature: what waits, how far it was delivered, and who is told of it."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from aerobee.broker.delays.delivery import DelayService
from aerobee.broker.delays.offsets_file import DelayOffsetTable
from aerobee.broker.features.feature import Feature, Parts, Sample
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.net.routes import NoHeader, Outcome, Reply, Request, Routes

log = logging.getLogger(__name__)


class Delays(Feature):
    """Delays by RocketMQ's levels; switched off by an empty `messageDelayLevel`."""

    metrics: ClassVar[Mapping[str, str]] = {
        "aerobee_delayed_messages": "Messages that wait for their delay level's time, by level",
    }

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self._live = parts.live
        settings = parts.live.current
        self.offsets = DelayOffsetTable(parts.now_ms, settings.config_dir)
        self.service = DelayService(
            parts.writing,
            parts.now_ms,
            parts.call_later,
            settings.delay_levels_ms,
            parts.cold_reads,
            parts.refused,
        )
        self.service.progress.recover(self.offsets.load())
        self.placer = self.service
        self.files = (self.offsets.file,)
        self.routes = Routes("delays")
        self.routes.on(RequestCode.GET_ALL_DELAY_OFFSET)(self._all_offsets)

    def start(self) -> None:
        """Deliver what is due."""
        self.service.start()

    def stop(self) -> None:
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

    def background(self) -> Iterable[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """Save the offsets now and then."""
        return (("delay offsets", self._save),)

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
