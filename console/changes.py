"""What was changed by this console: lines of its log, the last of which are kept to be shown."""

import logging
import time
from collections import deque
from typing import Final

import msgspec

log = logging.getLogger(__name__)

KEPT_MAX: Final = 1000


class ChangeMade(msgspec.Struct, frozen=True):
    """Who changed what, from which address, at which time (ms since 1970)."""

    at_ms: int
    by: str
    remote: str
    what: str


class Changes:
    """The changes of this process's time, the newest last."""

    def __init__(self) -> None:
        self.kept: deque[ChangeMade] = deque(maxlen=KEPT_MAX)

    def note(self, by: str, remote: str, what: str) -> None:
        """Write down what somebody has changed, or tried to, on one line whatever names have."""
        what = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in what)
        self.kept.append(ChangeMade(time.time_ns() // 1_000_000, by, remote, what))
        log.info("console_change by=%r remote=%s what=%s", by, remote, what)
