"""On which connections the producers of each client id are."""

from aerobee.broker.members.group import Client
from aerobee.remoting.net.connection import Connection


class ProducerIds:
    """Connections by client id, the newest last, each with how many producer groups it has.

    A client that leaves one of its groups is still there by the others; RocketMQ forgets it, and
    its replies then end with "channel not found".
    """

    def __init__(self) -> None:
        self._groups: dict[str, dict[Connection, int]] = {}

    def join(self, client: Client) -> None:
        """A client has one more group on its connection."""
        groups = self._groups.setdefault(client.client_id, {})
        groups[client.connection] = groups.get(client.connection, 0) + 1

    def leave(self, client: Client) -> None:
        """A client has one group less on its connection."""
        groups = self._groups[client.client_id]
        groups[client.connection] -= 1
        if not groups[client.connection]:
            del groups[client.connection]
        if not groups:
            del self._groups[client.client_id]

    def find(self, client_id: str) -> Connection | None:
        """Return the newest open connection of a client."""
        for connection in reversed(self._groups.get(client_id, {})):
            if not connection.closed:
                return connection
        return None
