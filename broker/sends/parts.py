"""What the checked path of sends needs, as one."""

from collections.abc import Callable, Sequence

from aerobee.broker.sends.checked import CheckedSends
from aerobee.broker.sends.checks import SendChecks
from aerobee.broker.sends.retries import Retries
from aerobee.broker.sends.storing import Storing
from aerobee.broker.settings.live import Live
from aerobee.broker.writing.parts import Writing
from aerobee.broker.writing.placing import Placer
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.storage.errors import StoreError


class Sending:
    """Made once by the broker; `refused` is told what the store would not take."""

    def __init__(
        self,
        live: Live,
        writing: Writing,
        retries: Retries,
        placers: Sequence[Placer],
        refused: Callable[[StoreError], None],
    ) -> None:
        self.retries = retries
        self.storing = Storing(live, writing, placers, refused, wall_clock_ms)
        self.checks = SendChecks(live, retries.topics, retries, wall_clock_ms)
        self.checked = CheckedSends(live, self.checks, self.storing, writing.hooks)
