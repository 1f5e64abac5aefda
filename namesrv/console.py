"""The web console beside a nameserver; imported where `consoleEnabled` is set."""

import logging
from typing import TYPE_CHECKING

from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.errors import system_error
from aerobee.remoting.extras import need
from aerobee.remoting.net.addresses import format_address

if TYPE_CHECKING:
    from aerobee.console.serving import ConsoleServer

log = logging.getLogger(__name__)


async def start_console(settings: NamesrvSettings, port: int) -> "ConsoleServer | None":
    """Serve a console that asks the nameserver on this port.

    Where its address cannot be had, that is logged, and the nameserver goes on. Raises ExtraMissing
    and SettingsError.
    """
    need("console", "consoleEnabled=true")
    from aerobee.console.beside import make_beside

    host = settings.bind_address
    address = format_address("127.0.0.1" if host in ("", "0.0.0.0", "::") else host, port)
    console = make_beside(settings, address, tls=settings.tls_server_mode == "enforcing")
    try:
        await console.start()
    except OSError as error:
        log.error("console_not_served error=%s", system_error(error))
        return None
    log.info("console_beside url=%s", console.url)
    return console
