"""What peers do wrong, told in the log, and not as often as they do it."""

import logging
from collections.abc import Callable
from typing import Final

TOLD_MAX: Final = 20  # lines in one period
PERIOD_MS: Final = 60_000


class Complaints:
    """Lines of a server, warnings unless said: of many in a minute the first ones and a number.

    A broker that is set up wrongly registers every 10 s; who means harm does so ten thousand times
    a second, and would fill the disk. `clock_ms` never goes back; the lines are those of `log`.
    """

    def __init__(
        self, clock_ms: Callable[[], int], log: logging.Logger, level: int = logging.WARNING
    ) -> None:
        self._log = log
        self._level = level
        self._clock_ms = clock_ms
        self._since_ms = clock_ms()
        self._count = 0

    def tell(self, text: str, *arguments: object) -> None:
        """Log, as `logging` does, if there is room for it."""
        now_ms = self._clock_ms()
        if now_ms - self._since_ms >= PERIOD_MS:
            if self._count > TOLD_MAX:
                self._log.log(self._level, "complaints left out count=%d", self._count - TOLD_MAX)
            self._since_ms, self._count = now_ms, 0
        self._count += 1
        if self._count <= TOLD_MAX:
            self._log.log(self._level, text, *arguments)
