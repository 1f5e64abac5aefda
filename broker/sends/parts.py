"""What the checked path of sends needs, as one."""

from dataclasses import dataclass

from aerobee.broker.sends.checks import SendChecks
from aerobee.broker.sends.placing import Placing
from aerobee.broker.sends.retries import Retries


@dataclass(frozen=True, slots=True)
class Sends:
    """Made once by the broker."""

    checks: SendChecks
    placing: Placing
    retries: Retries
