"""Failures of messages for which nobody waits, told in a few lines."""

import asyncio
import logging
from typing import Final

log = logging.getLogger(__name__)

TOLD_GAP_S: Final = 1.0  # between two warnings


class UnheardFailures:
    """Tells of failures that nobody has asked for: the first at once, more each second."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._count = 0
        self._last: BaseException | None = None
        self._gap_s = TOLD_GAP_S
        self._telling: asyncio.TimerHandle | None = None

    def add(self, error: BaseException) -> None:
        """Tell of one more."""
        self._count += 1
        self._last = error
        if self._telling is None:
            self._tell()

    def end(self) -> None:
        """Tell of all at once from now on: who ends its loop is to hear of them."""
        self._gap_s = 0.0
        if self._telling is not None:
            self._telling.cancel()
            self._tell()

    def _tell(self) -> None:
        self._telling = None
        if self._count:
            log.warning("sends failed, unawaited count=%d last=%s", self._count, self._last)
            self._count, self._last = 0, None
            self._telling = self._loop.call_later(self._gap_s, self._tell)
