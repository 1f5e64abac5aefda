"""The few things that a processor of the nameserver may touch."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from aerobee.namesrv.kv_config import KvConfig
from aerobee.namesrv.route_table import RouteTable
from aerobee.namesrv.settings import NamesrvSettings

if TYPE_CHECKING:
    from aerobee.remoting.net.access.guard import Guard


class NamesrvContext(msgspec.Struct):
    """One nameserver's tables, and the settings in force; `clock_ms` never goes back."""

    settings: NamesrvSettings
    table: RouteTable
    kv: KvConfig
    clock_ms: Callable[[], int]
    started_ms: int
    guard: "Guard | None" = None  # where it is asked who a request is from

    @property
    def ready(self) -> bool:
        """Whether routes may be answered: brokers had time to register (needWaitForService)."""
        if not self.settings.need_wait_for_service:
            return True
        waited_ms = self.clock_ms() - self.started_ms
        return waited_ms >= self.settings.wait_for_service_s * 1000
