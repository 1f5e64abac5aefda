"""What surrounds the hand-over of queues, where nothing happens."""

from collections.abc import Callable

from aerobee.broker.handover.environment import Environment, Holdings
from aerobee.broker.handover.owned_queue import Timer
from aerobee.broker.health.faults import Faults
from aerobee.broker.members.group import GroupQueue
from aerobee.remoting.net.connection import Connection
from support.stand_ins.virtual_time import VirtualTime


class QuietEnvironment(Environment):
    """A broker in which nothing is committed and nobody pulls, at a time of its own."""

    def __init__(self, time: VirtualTime | None = None) -> None:
        self.time = time or VirtualTime()
        self.faults = Faults()

    def clock_ms(self) -> int:
        """Return the time."""
        return self.time.now_ms

    def later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        """Do it when the time has come."""
        return self.time.later(delay_s, call)

    def notify(self, group: str, members: list[Connection]) -> None:
        """Nobody listens."""

    def caught(self, what: str, error: Exception, client_id: str) -> None:
        """Count it."""
        self.faults.caught(what, error, client_id=client_id)

    def committed(self, key: GroupQueue) -> int | None:
        """Nothing is."""
        return None

    def fetched(self, key: GroupQueue) -> int | None:
        """Nothing is."""
        return None

    def locked_by(self, key: GroupQueue) -> str | None:
        """Nobody does."""
        return None

    def tell(self, connection: Connection, key: GroupQueue) -> None:
        """Owners are told elsewhere."""

    def wake_pulls(self, key: GroupQueue) -> None:
        """There are none."""

    def end_pulls(self, connection: Connection, key: GroupQueue) -> None:
        """There are none."""

    def holds_pull(self, connection: Connection, key: GroupQueue) -> bool:
        """There are none."""
        return False

    def pulls_at(self, connection: Connection, key: GroupQueue) -> int | None:
        """There are none."""
        return None

    def commit(self, key: GroupQueue, offset: int) -> None:
        """Nobody is asked, so nothing is known."""

    def ask_holdings(
        self, connection: Connection, group: str, answered: Callable[[Holdings | None], None]
    ) -> None:
        """Nobody is a lite pull consumer."""
