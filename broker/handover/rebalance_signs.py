"""What members that are not ours show of their rebalancing: which change they have heard of."""

from collections.abc import Callable
from typing import Final

from aerobee.remoting.net.connection import Connection

RECENT_MS: Final = 30_000  # a queue that moves later than this after a change moves for another


class RebalanceSigns:
    """Counts the changes of groups, and who has asked for the members (38) since the latest.

    A change is one that makes a group share its queues anew: of members, of topics, of a topic's
    queue count. Some changes are not seen here (a route that another broker changed, another
    strategy): `expect` counts one where a queue moves although nothing has happened for long.
    """

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._number = 0
        self._latest: dict[str, tuple[int, int]] = {}  # group: number and time of its last change
        self._asked: dict[Connection, dict[str, int]] = {}

    def __len__(self) -> int:
        return len(self._latest) + len(self._asked)

    def change(self, group: str) -> int:
        """Return the number of a group's latest change, 0 if there was none."""
        return self._latest.get(group, (0, 0))[0]

    def changed(self, group: str) -> None:
        """A group has to share its queues anew."""
        self._number += 1
        self._latest[group] = self._number, self._clock_ms()

    def gone(self, group: str) -> None:
        """A group has no members any more."""
        self._latest.pop(group, None)

    def expect(self, group: str) -> None:
        """A queue moves: count a change if none was seen lately."""
        if self._clock_ms() - self._latest.get(group, (0, 0))[1] > RECENT_MS:
            self.changed(group)

    def asked(self, connection: Connection, group: str) -> None:
        """A member has asked who is in its group, which is how it begins to share queues."""
        self._asked.setdefault(connection, {})[group] = self.change(group)

    def has_asked(self, connection: Connection, group: str) -> bool:
        """Whether a member has asked since the latest change."""
        change = self.change(group)
        return change > 0 and self._asked.get(connection, {}).get(group) == change

    def left(self, connection: Connection, group: str) -> None:
        """A member is none any more."""
        asked = self._asked.get(connection)
        if asked is not None:
            asked.pop(group, None)
            if not asked:
                del self._asked[connection]
