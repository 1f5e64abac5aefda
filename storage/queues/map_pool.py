"""How many maps the queues of a store have, and whose are let go when there are too many."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol


class MapUser(Protocol):
    """Who has maps and can do without for a while: a queue."""

    def let_go(self) -> None:
        """Close them all, to be opened again by need, and tell the pool."""


class MapPool:
    """Counts maps; beyond `maps_max()` the user goes first that opened one longest ago.

    Whoever opens a map says so with `used` and is never the one to go. Nothing is asked where a map
    that is there is read or written, so the path of a message does not know of the pool.
    """

    def __init__(self, maps_max: Callable[[], int] = lambda: 1 << 30) -> None:
        self._maps_max = maps_max
        self.count = 0
        self._users: OrderedDict[MapUser, int] = OrderedDict()

    def used(self, user: MapUser, maps: int) -> None:
        """Take note of how many maps a user has now."""
        self.count += maps - self._users.pop(user, 0)
        if maps:
            self._users[user] = maps
        while self.count > self._maps_max() and len(self._users) > 1:
            next(iter(self._users)).let_go()
