"""Errors that nobody foresaw: counted by place, told once, and the harm of one party alone.

A loop that serves many waiting parties catches what one of them raises, tells it here, and goes on
with the next; what is foreseen (a refusal, a full disk) never comes here.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError

log = logging.getLogger(__name__)

QUIET_S: Final = 60.0  # in which a fault of one place and kind is told once


class Faults:
    """Counts the unforeseen errors of one broker, and logs the first of each kind with its trace.

    Further ones of the same place and type are told together, once a minute at most: ten thousand
    pulls that fail for one reason make one line. `clock_s` must never go back.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self.counts: Counter[str] = Counter()  # by place, since the start
        self._told: dict[tuple[str, str], tuple[float, int]] = {}  # when, and how many had been

    def caught(self, where: str, error: BaseException, **what: object) -> None:
        """Take note of an error; `what` says whom it concerns."""
        count = self.counts[where] = self.counts[where] + 1
        kind = where, type(error).__name__
        now = self._clock_s()
        told = self._told.get(kind)
        if told is not None and now - told[0] < QUIET_S:
            return
        untold = count - told[1] - 1 if told is not None else 0
        self._told[kind] = now, count
        details = "".join(f" {name}={value}" for name, value in what.items())
        log.error("fault where=%s%s untold=%d", where.replace(" ", "_"), details, untold,
                  exc_info=error)  # fmt: skip


def as_refusal(error: Exception) -> RequestError:
    """Return what a peer is told whose request met an unforeseen error: SYSTEM_ERROR, and why."""
    return RequestError(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
