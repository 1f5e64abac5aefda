"""Which cluster a read or write over the network talks to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TOOLS_GROUP: Final = "TOOLS_CONSUMER"  # every broker has it, so that pulls make no new group


@dataclass(frozen=True, slots=True)
class NetworkAddress:
    """A cluster's nameservers, each as "host:port", and as whom it is read; picklable, for tasks.

    `group` is a name in the brokers' statistics. `patience_ms` is how long a task goes on asking a
    broker that does not answer.
    """

    namesrv: tuple[str, ...]
    group: str = TOOLS_GROUP
    patience_ms: int = 60_000

    def __str__(self) -> str:
        return ";".join(self.namesrv)
