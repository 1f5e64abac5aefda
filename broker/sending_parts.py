"""What the checked path of sends needs, as one."""

from dataclasses import dataclass

from aerobee.broker.placing import Placing
from aerobee.broker.send_back import Retries
from aerobee.broker.send_checks import SendChecks


@dataclass(frozen=True, slots=True)
class Sends:
    """Made once by the broker."""

    checks: SendChecks
    placing: Placing
    retries: Retries
