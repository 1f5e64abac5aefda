"""A TLS context that is loaded anew when its files change, without a connection's end.

Whoever renews certificates writes two files, one after the other. A pair that does not fit, or
cannot be read, changes nothing: the one before stays in use until the new one is whole.
"""

import logging
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from aerobee.remoting.clocks import steady_clock_ms
from aerobee.remoting.net.tls import TlsError

log = logging.getLogger(__name__)

LOOK_INTERVAL_MS: Final = 1000
JUDGE_INTERVAL_MS: Final = 600_000  # it takes handshakes: a few milliseconds of the loop

_Stamp = tuple[int, int, int, int]
_Stamps = tuple[_Stamp | None, ...]  # of each file; None where there is none


class WatchedContext:
    """A TLS context and the files that it was made from; `look` is to be called now and then.

    Files that changed are read when two looks in a row, at least LOOK_INTERVAL_MS apart, have found
    them the same: who writes them has come to an end. `context` is replaced then, for handshakes to
    come. What cannot be used is told once and tried at every look: it may be for want of a right to
    read it, or of file numbers, that nothing about the files shows. Nor is one used that
    `out_of_date` says something of, while it says nothing of the one before. It is asked of the one
    in use every JUDGE_INTERVAL_MS, too: one that nobody renews ends without a change of its files.
    """

    def __init__(
        self,
        load: Callable[[], ssl.SSLContext],
        paths: Sequence[str],
        clock_ms: Callable[[], int] = steady_clock_ms,
        out_of_date: Callable[[ssl.SSLContext], str] = lambda context: "",
    ) -> None:
        """Load it; raises TlsError."""
        self._load = load
        self._paths = [path for path in dict.fromkeys(paths) if path]
        self._clock_ms = clock_ms
        self._out_of_date = out_of_date
        self._looked_ms = clock_ms()
        self._used = self._seen = self._stamps()
        self._refused: _Stamps | None = None
        self.context = load()
        self._told = ""
        self._judge()

    def look(self) -> None:
        """Replace the context if its files have changed and fit together."""
        now_ms = self._clock_ms()
        if not self._paths or now_ms - self._looked_ms < LOOK_INTERVAL_MS:
            return
        self._looked_ms = now_ms
        if now_ms - self._judged_ms >= JUDGE_INTERVAL_MS:
            self._judge()
        before, self._seen = self._seen, self._stamps()
        if self._seen == self._used or self._seen != before:
            return
        try:
            context = self._load()
            why = self._out_of_date(context)
            if why and not self._out_of_date(self.context):
                raise TlsError(why)
        except TlsError as error:
            if self._seen != self._refused:
                self._refused = self._seen
                log.warning(
                    "certificates kept, the new ones cannot be used files=%s %s", self._names, error
                )
            return
        if self._stamps() == self._seen:  # else they changed meanwhile: the next look reads them
            self.context, self._used = context, self._seen
            log.info("certificates loaded anew files=%s", self._names)
            self._judge()

    def _judge(self) -> None:
        """Tell once what is wrong with the dates of what is in use: time alone may end them."""
        self._judged_ms = self._clock_ms()
        told, self._told = self._told, self._out_of_date(self.context)
        if self._told and self._told != told:
            log.warning("certificates in use are out of date files=%s %s", self._names, self._told)

    @property
    def _names(self) -> str:
        return " ".join(self._paths)

    def _stamps(self) -> _Stamps:
        return tuple(_stamp(path) for path in self._paths)


def _stamp(path: str) -> _Stamp | None:
    """Return what changes with a file: its times, by which rights are told, too, size and place."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
