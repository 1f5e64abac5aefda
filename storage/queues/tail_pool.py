"""How much memory the tails of busy queues take, and whose is cut down when it is too much."""

from collections import OrderedDict
from typing import Final, Protocol

from aerobee.storage.layout import ENTRY_BYTES

LARGE_BYTES: Final = 32 * ENTRY_BYTES  # a smaller tail is not counted
LARGE_BYTES_MAX: Final = 64 << 20  # of all that are counted


class TailUser(Protocol):
    """Who has a tail and can do with a small one for a while: a queue."""

    def let_tail_go(self) -> None:
        """Write it out, keep little of it, and tell the pool; or, as the disk has it, not."""


class TailPool:
    """Counts large tails; beyond the most that is allowed the one goes that grew longest ago."""

    def __init__(self, bytes_max: int = LARGE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self.bytes = 0
        self._users: OrderedDict[TailUser, int] = OrderedDict()

    def used(self, user: TailUser, count: int) -> None:
        """Take note of how many bytes a user has now."""
        self.bytes -= self._users.pop(user, 0)
        if count <= LARGE_BYTES:
            return
        self.bytes += count
        self._users[user] = count
        if self.bytes > self._bytes_max and len(self._users) > 1:
            next(iter(self._users)).let_tail_go()
