"""What the checked path of sends needs, as one."""

from dataclasses import dataclass
from typing import Self

from aerobee.broker.hooks import Hooks
from aerobee.broker.sends.checked import CheckedSends
from aerobee.broker.sends.checks import SendChecks
from aerobee.broker.sends.retries import Retries
from aerobee.broker.sends.storing import Storing
from aerobee.broker.settings.live import Live
from aerobee.broker.tables.topics import TopicTable
from aerobee.remoting.clocks import wall_clock_ms


@dataclass(frozen=True, slots=True)
class Sends:
    """Made once by the broker."""

    checks: SendChecks
    checked: CheckedSends
    retries: Retries
    storing: Storing

    @classmethod
    def over(
        cls, live: Live, topics: TopicTable, retries: Retries, hooks: Hooks, storing: Storing
    ) -> Self:
        """Make it from what it looks at and stores with."""
        checks = SendChecks(live, topics, retries, wall_clock_ms)
        return cls(checks, CheckedSends(live, checks, storing, hooks), retries, storing)
