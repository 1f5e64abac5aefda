"""How much old data a group may read: the limits that operators note (ColdDataCgCtrService).

They are noted and shown, as RocketMQ does. Nobody is slowed by them: RocketMQ counts where
`coldDataFlowControlEnable` is true, which it is not by default, and here old data is read in turns.
"""

from collections.abc import Mapping
from typing import Final

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError

GROUPS_MAX: Final = 10_000
GROUP_BYTES: Final = 3 << 20  # cgColdReadThreshold
ALL_BYTES: Final = 100 << 20  # globalColdReadThreshold


class ColdFlow:
    """Bytes of old data by group, until the broker stops."""

    def __init__(self) -> None:
        self._limits: dict[str, int] = {}

    def update(self, limits: Mapping[str, int]) -> None:
        """Note limits; RequestError where they are of too many groups, and none is noted then."""
        if len(self._limits.keys() | limits.keys()) > GROUPS_MAX:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"limits of at most {GROUPS_MAX} groups are kept"
            )
        self._limits.update(limits)

    def remove(self, group: str) -> None:
        """Forget a group's limit, if it has one."""
        self._limits.pop(group, None)

    def shown(self) -> dict[str, object]:
        """Return what tools print, under RocketMQ's names."""
        return {
            "runtimeTable": {},
            "configTable": dict(self._limits),
            "cgColdReadThreshold": GROUP_BYTES,
            "globalColdReadThreshold": ALL_BYTES,
            "globalAcc": 0,
        }
