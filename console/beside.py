"""A console in the process of another server, on its event loop."""

from aerobee.console.serving import ConsoleServer
from aerobee.console.settings import ConsoleSettings
from aerobee.remoting.config.console_keys import ConsoleKeys


def make_beside(keys: ConsoleKeys, namesrv_addr: str, *, tls: bool) -> ConsoleServer:
    """Return a console over the cluster of a nameserver, not started yet; raises SettingsError.

    `tls` says that calls have to be encrypted.
    """
    values = {name: getattr(keys, name) for name in ConsoleKeys.model_fields}
    return ConsoleServer(ConsoleSettings(**values, namesrv_addr=namesrv_addr, tls_enable=tls))
