"""What servers say: of themselves when they start, and in lines that nobody can forge."""

import logging
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from ipaddress import ip_address
from pathlib import Path
from typing import Final, TextIO

from aerobee.remoting.config.settings import ServerSettings
from aerobee.remoting.net.addresses import format_address
from aerobee.remoting.net.logs.json_lines import JsonLines
from aerobee.remoting.net.logs.log_files import LogFile
from aerobee.remoting.net.settings import LogSettings, NetSettings
from aerobee.remoting.net.tls import ClientAuth, TlsMode

FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"
_CONTROLS: Final = {
    sign: f"\\x{sign:02x}" if sign < 0x100 else f"\\u{sign:04x}"
    for sign in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
}
LINE_CHARS_MAX: Final = 8000
LIKE_MAX: Final = 100
TOLD_LIKE_MAX: Final = 2000  # of lines that are no warnings
PERIOD_S: Final = 60.0
OURS: Final = "aerobee"
EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::"})


class OneLine(logging.Formatter):
    """Formats what servers log: a message is one line, whatever names a peer has sent."""

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Write control characters as Python does, and of a very long line its beginning."""
        line = super().formatMessage(record)
        if len(line) > LINE_CHARS_MAX:
            line = f"{line[:LINE_CHARS_MAX]}... ({len(line)} characters)"
        return line.translate(_CONTROLS)


class ServerLog(logging.Handler):
    """Writes the log of a server, and of lines that are alike a bounded number.

    Whoever can make a server complain can do so ten thousand times a second, and would fill the
    disk. Alike are those of one place in the code; of each LIKE_MAX are written in a minute, of
    those that are no warnings TOLD_LIKE_MAX, and then how many more there were. DEBUG has no limit:
    who asks for it wants all.
    """

    def __init__(
        self,
        target: logging.Handler | TextIO | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._target: logging.Handler = (
            target if isinstance(target, logging.Handler) else logging.StreamHandler(target)
        )
        if self._target.formatter is None:
            self._target.setFormatter(OneLine())
        self._clock_s = clock_s
        self._since_s = clock_s()
        self._written: Counter[tuple[str, int, int]] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or count it."""
        now_s = self._clock_s()
        if now_s - self._since_s >= PERIOD_S:
            alike, self._written = self._written, Counter()
            self._since_s = now_s
            for (path, line, most), count in alike.items():
                if count > most:
                    self._tell(f"{Path(path).stem}:{line}", count - most)
        if record.levelno >= logging.INFO:
            most = LIKE_MAX if record.levelno >= logging.WARNING else TOLD_LIKE_MAX
            place = record.pathname, record.lineno, most
            self._written[place] += 1
            if self._written[place] > most:
                return
        self._target.handle(record)

    def close(self) -> None:
        """Write what waits."""
        self._target.close()
        super().close()

    def _tell(self, place: str, count: int) -> None:
        text, said = "lines_left_out place=%s count=%d", (place, count)
        self._target.handle(logging.LogRecord(__name__, logging.WARNING, "", 0, text, said, None))


class Logs:
    """Where the log lines of a process go that is a server, from now on, and which.

    Made once by such a process; an embedding program keeps its own handlers instead. Raises OSError
    where `logFile` cannot be opened.
    """

    def __init__(self, settings: LogSettings, stream: TextIO | None = None) -> None:
        target: logging.Handler = logging.StreamHandler(stream)
        if settings.log_file is not None:
            path = settings.log_file.expanduser()
            target = LogFile(path, settings.log_file_bytes_max, settings.log_files_max)
        target.setFormatter(JsonLines() if settings.log_format == "json" else OneLine())
        self._handler = ServerLog(target)
        self._parts: set[str] = set()  # that have a level of their own
        ours = logging.getLogger(OURS)
        ours.addHandler(self._handler)
        ours.propagate = False
        logging.raiseExceptions = False  # a closed stream must not end what was being logged
        self.apply(settings)

    def apply(self, settings: LogSettings) -> None:
        """Write what these settings ask for: `logLevel`, and `logLevels` of parts."""
        logging.getLogger(OURS).setLevel(settings.log_level)
        levels = settings.levels_of_parts
        for part in self._parts - set(levels):
            logging.getLogger(f"{OURS}.{part}").setLevel(logging.NOTSET)
        for part, level in levels.items():
            logging.getLogger(f"{OURS}.{part}").setLevel(level)
        self._parts = set(levels)

    def close(self) -> None:
        """Write what waits, and leave the log to others."""
        ours = logging.getLogger(OURS)
        for part in self._parts:
            logging.getLogger(f"{OURS}.{part}").setLevel(logging.NOTSET)
        ours.removeHandler(self._handler)
        ours.propagate = True
        self._handler.close()


@cache
def package_version() -> str:
    """Return the version of what runs, "unknown" where it was not installed."""
    try:
        return version("aerobee")
    except PackageNotFoundError:
        return "unknown"


def tell_start(log: logging.Logger, what: str, settings: ServerSettings) -> None:
    """Log who starts, and every setting that somebody has chosen; secrets stay hidden."""
    log.info(
        "%s_starts version=%s python=%s settings=%s",
        what,
        package_version(),
        platform.python_version(),
        " ".join(f"{key}={value!r}" for key, value in settings.chosen().items()) or "defaults",
    )


def tell_openness(log: logging.Logger, what: str, ports: Iterable[tuple[str, int]]) -> None:
    """Warn, in one line, where whoever is in the network can use a server without a name.

    `ports` are those that ask nobody who he is, each with its host; loopback is not the network.
    """
    beyond = [format_address(host or "0.0.0.0", port) for host, port in ports if _is_open(host)]
    if beyond:
        log.warning(
            "%s_is_open listens=%s: beyond this machine, without authentication;"
            " authenticationEnabled=true, bindAddress=127.0.0.1 or a firewall closes it",
            what,
            ",".join(beyond),
        )


def asks_for_certificates(settings: NetSettings) -> bool:
    """Whether nobody gets in without a certificate that is verified."""
    tls = settings.tls
    return tls.mode is TlsMode.ENFORCING and tls.client_auth is ClientAuth.REQUIRE


def _is_open(host: str) -> bool:
    """Whether a server that listens there is reached from other machines."""
    if host in EVERYWHERE:
        return True
    try:
        return not ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host.rstrip(".").lower() != "localhost"
