"""What the checked path of sends needs, as one."""

from dataclasses import dataclass

from aerobee.broker.sends.checked import CheckedSends
from aerobee.broker.sends.checks import SendChecks
from aerobee.broker.sends.retries import Retries
from aerobee.broker.sends.storing import Storing


@dataclass(frozen=True, slots=True)
class Sends:
    """Made once by the broker."""

    checks: SendChecks
    checked: CheckedSends
    retries: Retries
    storing: Storing
