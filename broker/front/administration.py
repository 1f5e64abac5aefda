"""What the `adminPort` keeps to itself: the other ports refuse it, whoever asks."""

from typing import Final

from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.net.access.changes import CHANGES
from aerobee.remoting.net.connection import Connection, Handler
from aerobee.remoting.net.routes import Reply, answer

ADMINISTRATION: Final = frozenset(
    {
        *CHANGES,
        RequestCode.GET_BROKER_CONFIG,
        RequestCode.AUTH_GET_USER,
        RequestCode.AUTH_LIST_USER,
        RequestCode.AUTH_GET_ACL,
        RequestCode.AUTH_LIST_ACL,
    }
)
"""Changes, and what tells how the broker is protected; other reads are tools' everywhere."""
_REMARK: Final = "administrative requests are served on another port (adminPort)"


class WithoutAdministration:
    """Hands on what clients ask, and refuses what operators do."""

    def __init__(self, serve: Handler) -> None:
        self._serve = serve

    def __call__(self, connection: Connection, command: Command) -> None:
        """Serve one request, or refuse it (16)."""
        if command.code in ADMINISTRATION:
            answer(connection, command, Reply(code=ResponseCode.NO_PERMISSION, remark=_REMARK))
        else:
            self._serve(connection, command)
