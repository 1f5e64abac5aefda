"""What servers say: of themselves when they start, and in lines that nobody can forge."""

import logging
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from aerobee.remoting.config.settings import ServerSettings
from aerobee.remoting.net.addresses import format_address
from aerobee.remoting.net.settings import NetSettings
from aerobee.remoting.net.tls import ClientAuth, TlsMode

FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"
_CONTROLS: Final = {
    sign: f"\\x{sign:02x}" if sign < 0x100 else f"\\u{sign:04x}"
    for sign in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
}
EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::"})


class OneLine(logging.Formatter):
    """Formats what servers log: a message is one line, whatever names a peer has sent."""

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Write control characters as they are written in Python."""
        return super().formatMessage(record).translate(_CONTROLS)


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


def tell_openness(log: logging.Logger, what: str, settings: NetSettings, port: int) -> None:
    """Warn where whoever is in the network can use a server: it asks nobody who he is.

    Certificates that clients must show (`tls.server.need.client.auth=require`) count as asking.
    """
    tls, host = settings.tls, settings.bind_address
    asked = tls.mode is TlsMode.ENFORCING and tls.client_auth is ClientAuth.REQUIRE
    if host in EVERYWHERE and not asked:
        log.warning(
            "%s_is_open listens=%s: on every interface, without authentication;"
            " bindAddress=127.0.0.1 or a firewall closes it",
            what,
            format_address(host or "0.0.0.0", port),
        )
