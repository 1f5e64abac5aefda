"""The web console beside a nameserver; imported where `consoleEnabled` is set.

It is a folder above this one: nothing here knows it but by the name of the module that makes it.
"""

import importlib
import logging
from typing import Final, Protocol

from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.errors import system_error
from aerobee.remoting.extras import need
from aerobee.remoting.net.addresses import format_address

log = logging.getLogger(__name__)

BESIDE: Final = "aerobee.console.beside"


class ConsoleBeside(Protocol):
    """What is served beside a nameserver, on its event loop."""

    @property
    def url(self) -> str:
        """Where a browser of this machine finds it."""

    async def start(self) -> None:
        """Return when it serves; raises OSError where its address cannot be had."""

    async def stop(self) -> None:
        """Return when everything is closed."""


async def start_console(settings: NamesrvSettings, port: int) -> ConsoleBeside | None:
    """Serve a console that asks the nameserver on this port.

    Where its address cannot be had, that is logged, and the nameserver goes on. Raises ExtraMissing
    and SettingsError.
    """
    need("console", "consoleEnabled=true")
    host = settings.bind_address
    address = format_address("127.0.0.1" if host in ("", "0.0.0.0", "::") else host, port)
    make = importlib.import_module(BESIDE).make_beside
    console: ConsoleBeside = make(settings, address, tls=settings.tls_server_mode == "enforcing")
    try:
        await console.start()
    except OSError as error:
        log.error("console_not_served error=%s", system_error(error))
        return None
    log.info("console_beside url=%s", console.url)
    return console
