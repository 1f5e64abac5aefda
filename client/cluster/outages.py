"""Says once that something fails, counts while it does, and says when it is over."""

import logging
from collections.abc import Callable
from time import monotonic
from typing import Final

TOLD_EVERY_S: Final = 30.0  # between two lines of one thing that goes on failing
THINGS_MAX: Final = 1_000  # that are remembered


class _Outage:
    """How often one thing has failed in a row, and what was said of it."""

    __slots__ = ("began_s", "failures", "lasts", "told", "told_s", "why")

    def __init__(self, now_s: float) -> None:
        self.began_s = now_s
        self.told_s = now_s - TOLD_EVERY_S
        self.failures = 0
        self.lasts = False
        self.told = False  # that it fails
        self.why: object = ""


class Outages:
    """The things that fail at the moment, told in a few lines however often they are tried.

        outages = Outages(log)
        outages.failed("connecting to broker-a", error)  # WARNING: connecting to broker-a fails: ..
        outages.failed("connecting to broker-a", error)  # nothing, and a count each half minute
        outages.over("connecting to broker-a")           # INFO: connecting to broker-a works again

    Call `failed` at each failure and `over` at each success, which costs one look-up; `lasting` is
    empty while nothing fails. What comes and goes all the time is told twice in half a minute.
    `clock` tells seconds of any origin.
    """

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = monotonic) -> None:
        self._log = log
        self._clock = clock
        self._known: dict[str, _Outage] = {}
        self.lasting: set[str] = set()

    def failed(self, what: str, why: object) -> None:
        """Note that `what`, a gerund with its object, has failed once more, and why."""
        now_s = self._clock()
        outage = self._known.get(what)
        if outage is None:
            self._make_room()
            outage = self._known[what] = _Outage(now_s)
        if not outage.lasts:
            outage.lasts, outage.began_s, outage.failures = True, now_s, 0
            self.lasting.add(what)
        outage.failures += 1
        outage.why = why
        if now_s - outage.told_s < TOLD_EVERY_S:
            return
        outage.told, outage.told_s = True, now_s
        if outage.failures == 1:
            self._log.warning("%s fails: %s", what, why)
        else:
            lasted_s = now_s - outage.began_s
            message = "%s still fails, %d times in %.0f s: %s"
            self._log.warning(message, what, outage.failures, lasted_s, why)

    def over(self, what: str) -> None:
        """Note that `what` has succeeded; nothing where it did not fail before."""
        if what not in self.lasting:
            return
        self.lasting.discard(what)
        outage = self._known[what]
        outage.lasts = False
        if outage.told:
            outage.told, outage.told_s = False, self._clock()
            lasted_s = outage.told_s - outage.began_s
            count = "1 failure" if outage.failures == 1 else f"{outage.failures} failures"
            self._log.info("%s works again, after %.1f s and %s", what, lasted_s, count)

    def reasons(self) -> dict[str, str]:
        """Say of each thing that fails at the moment why it did so last."""
        return {what: str(self._known[what].why) for what in sorted(self.lasting)}

    def forget(self, what: str) -> None:
        """Say no more of it: nobody tries it any longer."""
        self.lasting.discard(what)
        self._known.pop(what, None)

    def _make_room(self) -> None:
        if len(self._known) < THINGS_MAX:
            return
        for what in [each for each, outage in self._known.items() if not outage.lasts]:
            del self._known[what]
        while len(self._known) >= THINGS_MAX:
            self.forget(next(iter(self._known)))  # the one that began first
