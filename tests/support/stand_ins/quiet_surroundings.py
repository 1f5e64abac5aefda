"""What surrounds the hand-over of queues, where nothing happens."""

from collections.abc import Callable

from aerobee.broker.handover.handed_out import Holdings
from aerobee.broker.handover.owners import Surroundings
from aerobee.broker.members.queue_key import QueueKey
from aerobee.remoting.net.connection import Connection


class QuietSurroundings(Surroundings):
    """A broker in which nothing is committed and nobody pulls."""

    def committed(self, key: QueueKey) -> int | None:
        """Nothing is."""
        return None

    def fetched(self, key: QueueKey) -> int | None:
        """Nothing is."""
        return None

    def locked_by(self, key: QueueKey) -> str | None:
        """Nobody does."""
        return None

    def tell(self, connection: Connection, key: QueueKey) -> None:
        """Owners are told elsewhere."""

    def wake_pulls(self, key: QueueKey) -> None:
        """There are none."""

    def end_pulls(self, connection: Connection, key: QueueKey) -> None:
        """There are none."""

    def holds_pull(self, connection: Connection, key: QueueKey) -> bool:
        """There are none."""
        return False

    def pulls_at(self, connection: Connection, key: QueueKey) -> int | None:
        """There are none."""
        return None

    def commit(self, key: QueueKey, offset: int) -> None:
        """Nobody is asked, so nothing is known."""

    def ask_holdings(
        self, connection: Connection, group: str, answered: Callable[[Holdings | None], None]
    ) -> None:
        """Nobody is a lite pull consumer."""
