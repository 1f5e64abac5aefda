"""Whether whoever decides about a transaction may: its half message says of which topic it is."""

from typing import Any, Protocol

from aerobee.remoting.message.record import Record
from aerobee.remoting.net.routes import Request


class RecordRights(Protocol):
    """Who knows what whoever asks may do, where that is asked."""

    def check_published(self, request: Request[Any], record: Record) -> None:
        """Return where he may send to its topic; raises RequestError."""

    def check_changed(self, request: Request[Any], record: Record) -> None:
        """Return where he may change its topic; raises RequestError."""


class HasRights(Protocol):
    """A broker, as far as rights go."""

    @property
    def records(self) -> RecordRights | None:
        """Who knows them; None where nobody is asked."""


def check_ended(broker: HasRights | None, request: Request[Any], half: Record) -> None:
    """Return where whoever asks may end this transaction; raises RequestError."""
    if broker is not None and broker.records is not None:
        broker.records.check_published(request, half)


def check_resumed(broker: HasRights | None, request: Request[Any], half: Record) -> None:
    """Return where whoever asks may have this transaction asked about; raises RequestError."""
    if broker is not None and broker.records is not None:
        broker.records.check_changed(request, half)
