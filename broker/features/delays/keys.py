"""The settings of delayed messages."""

from typing import Final

from pydantic import Field

from aerobee.broker.settings.values import Milliseconds
from aerobee.remoting.config.settings import AtStart, Guarded, ServerSettings

_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class DelayKeys(ServerSettings):
    """How long messages can wait; an empty `messageDelayLevel` switches delays off."""

    # what waits already is delivered by the new times; "" is ours
    message_delay_level: AtStart[Guarded[str]] = Field(
        default="1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        # \d costs 60 ms a start
        pattern=r"^\s*$|^\s*[0-9]{1,9}[smhd](\s+[0-9]{1,9}[smhd]){0,127}\s*$",
    )
    flush_delay_offset_interval: Milliseconds = 10_000

    @property
    def delays_messages(self) -> bool:
        """Whether there is a level."""
        return bool(self.message_delay_level.strip())

    @property
    def delay_levels_ms(self) -> tuple[int, ...]:
        """The delay levels from 1 on, in milliseconds."""
        return tuple(
            int(level[:-1]) * _UNIT_MS[level[-1]] for level in self.message_delay_level.split()
        )
