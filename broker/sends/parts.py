"""What the checked path of sends needs, as one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from aerobee.broker.features.feature import Placer
from aerobee.broker.sends.checks import SendChecks
from aerobee.broker.sends.placing import Placing
from aerobee.broker.sends.retries import Retries
from aerobee.broker.settings.live import Live
from aerobee.broker.tables.kept import Tables
from aerobee.broker.writing.parts import Writing
from aerobee.remoting.clocks import wall_clock_ms


@dataclass(frozen=True, slots=True)
class Sends:
    """Made once by the broker."""

    checks: SendChecks
    placing: Placing
    retries: Retries

    @classmethod
    def over(
        cls,
        live: Live,
        writing: Writing,
        tables: Tables,
        placers: Sequence[Placer],
        retries: Retries,
    ) -> Self:
        """Make it from what it writes to and looks at."""
        placing = Placing(writing, placers)
        return cls(SendChecks(live, tables.topics, placing, wall_clock_ms), placing, retries)
