"""Pulls of users that come again, answered by compiled code, and asked nothing again.

What is known of a pull is whose it was: the same bytes on another user's connection, or after his
rights have changed, are no repeated pull.
"""

from typing import Protocol, cast

from aerobee.broker.front.traffic import Traffic
from aerobee.broker.pulls.parts import Pulling
from aerobee.broker.pulls.pull import Pull
from aerobee.broker.pulls.repeats import Known, Repeats, ServePulls
from aerobee.broker.pulls.server import PullProcessor
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.remoting.net.connection import Connection


class PassedPulls(Protocol):
    """What has passed of a user."""

    def may_pull(self, topic: str, group: str) -> bool:
        """Whether a pull like this has."""


class HasUser(Protocol):
    """A connection that knows its user."""

    user: PassedPulls


class UserRepeats(Repeats):
    """Pulls that come again, of users: signatures do not matter, users do."""

    signs = True

    def asker(self, connection: Connection) -> PassedPulls:
        """Return the user of a connection."""
        return cast(HasUser, connection).user

    def begin(self, connection: Connection) -> int:
        """Have each queue of this run asked for."""
        begun = super().begin(connection)
        self._is_fresh, self.fresh = self.fresh, True
        return begun

    def is_settled(self, connection: Connection, known: Known) -> bool:
        """Whether it is this connection's user's pull, and still may be."""
        user, header = self.asker(connection), known.header
        if user is not known.asker or not user.may_pull(header.topic, header.consumer_group):
            return False
        return not self._is_fresh or super().is_settled(connection, known)


class UserPulls:
    """Answers pulls of all users, by the settings in force.

    Where others than usual serve pulls (of static topics), they do, too, each as it comes.
    """

    def __init__(self, settings: BrokerSettings, parts: Pulling) -> None:
        self._parts = parts
        self._settings = settings
        self.apply(settings)
        parts.on_made.append(lambda: self.apply(self._settings))

    def apply(self, settings: BrokerSettings) -> None:
        """Make anew what was made from settings."""
        parts, self._settings = self._parts, settings
        self._server = parts.server
        self.serve_run: ServePulls | None = None
        if parts.make is PullProcessor:
            self._server = PullProcessor(settings, parts, UserRepeats)
            self.serve_run = self._server.serve_run

    def serve(self, pull: Pull) -> list[bytes | memoryview] | None:
        """Answer a pull that has just arrived; None when it is held."""
        return self._server.serve(pull)

    def fault(self, pull: Pull, error: Exception) -> list[bytes | memoryview]:
        """Take note of what went wrong with a pull, and say what its client is told."""
        return self._server.fault(pull, error)


class PortPulls:
    """Answers pulls as a port does that has no way of its own for many."""

    serve_run: ServePulls | None = None

    def __init__(self, port: Traffic) -> None:
        self._port = port

    def serve(self, pull: Pull) -> list[bytes | memoryview] | None:
        """Answer a pull that has just arrived; None when it is held."""
        return self._port.pulls.serve(pull)

    def fault(self, pull: Pull, error: Exception) -> list[bytes | memoryview]:
        """Take note of what went wrong with a pull, and say what its client is told."""
        return self._port.pulls.fault(pull, error)
