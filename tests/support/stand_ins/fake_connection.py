"""A connection without a socket: remembers what was sent over it."""

from aerobee.remoting.command import Command
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.reading import ReadingSide


class FakeConnection(Connection):
    """Stands in for a Connection where only its identity and its sending matter."""

    def __init__(self, remote: str = "10.0.0.1:1000") -> None:
        super().__init__(lambda connection, command: None)
        self.remote = remote
        self.closed = False
        self.reading = ReadingSide(self)
        self.sent: list[Command] = []

    def oneway(self, command: Command) -> None:
        """Remember a request that wants no reply."""
        self.sent.append(command)

    def send(self, command: Command) -> None:
        """Remember a reply."""
        self.sent.append(command)
