"""Where log lines go: the only place of the broker that installs handlers."""

import logging
from typing import TextIO

from aerobee.broker.settings.keys import BrokerSettings
from aerobee.remoting.net.server_log import ServerLog


def configure_logs(settings: BrokerSettings, stream: TextIO | None = None) -> logging.Handler:
    """Write the log of everything that is ours to `stream` (standard error unless given).

    Called once by a process that is a broker; an embedding program keeps its own handlers instead.
    Returns the handler, for `undo`.
    """
    handler = ServerLog(stream)
    ours = logging.getLogger("aerobee")
    ours.addHandler(handler)
    ours.setLevel(settings.log_level)
    ours.propagate = False
    logging.raiseExceptions = False  # a closed stream must not end what was being logged
    return handler


def undo(handler: logging.Handler) -> None:
    """Undo `configure_logs`."""
    ours = logging.getLogger("aerobee")
    ours.removeHandler(handler)
    ours.propagate = True
    handler.close()
