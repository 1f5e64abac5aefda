"""Which cluster a read or write over the network talks to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from aerobee.client.settings import ClientSettings
    from aerobee.remoting.net.tls import TlsClientSettings

TOOLS_GROUP: Final = "TOOLS_CONSUMER"  # every broker has it, so that pulls make no new group


@dataclass(frozen=True, slots=True)
class NetworkAddress:
    """A cluster's nameservers, each as "host:port", and as whom it is read; picklable, for tasks.

    `group` is a name in the brokers' statistics. `patience_ms` is how long a task goes on asking a
    broker that does not answer. `tls` is None for plain TCP; files in it are read where a task is.
    """

    namesrv: tuple[str, ...]
    group: str = TOOLS_GROUP
    patience_ms: int = 60_000
    tls: TlsClientSettings | None = field(default=None, repr=False)  # it has a password

    def __str__(self) -> str:
        return ";".join(self.namesrv)

    def client(self) -> ClientSettings:
        """The settings of connections to the cluster."""
        from aerobee.client.settings import ClientSettings

        return ClientSettings(tls=self.tls)
