"""How long a task tries again what a cluster does not do, and what it says in the end."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final

from aerobee.spark.errors import ClusterUnreachable
from aerobee.spark.options.address import NetworkAddress

RETRY_DELAY_S: Final = 0.05  # doubled each time
RETRY_DELAY_S_MAX: Final = 2.0


class Patience:
    """The tries of one thing, from now on; `what` says in the failure's text what failed."""

    def __init__(self, address: NetworkAddress, what: str) -> None:
        self._address = address
        self._what = what
        self._began_s = monotonic()
        self._delay_s = RETRY_DELAY_S

    async def wait(self, problem: str) -> None:
        """Wait a little; raises ClusterUnreachable when that was enough."""
        if monotonic() - self._began_s > self._address.patience_ms / 1000:
            raise self.failure(problem)
        await asyncio.sleep(self._delay_s)
        self._delay_s = min(self._delay_s * 2, RETRY_DELAY_S_MAX)

    def failure(self, problem: str) -> ClusterUnreachable:
        """What is said of what fails."""
        return ClusterUnreachable(
            f"cluster of {self._address}: {self._what}, tried for"
            f" {monotonic() - self._began_s:.1f} s (option networkTimeout:"
            f" {self._address.patience_ms} ms): {problem}"
        )
