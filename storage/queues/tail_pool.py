"""How much memory the tails of busy queues take, and whose is cut down when it is too much."""

from collections import OrderedDict
from typing import Final, Protocol

from aerobee.storage.layout import ENTRY_BYTES

LARGE_BYTES: Final = 32 * ENTRY_BYTES  # a smaller tail is not counted
LARGE_BYTES_MAX: Final = 64 << 20  # of all that are counted
TRIED_MAX: Final = 4  # at a time, of those that the disk may not take


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
        for _ in range(min(TRIED_MAX, len(self._users) - 1)):
            if self.bytes <= self._bytes_max:
                break
            oldest = next(iter(self._users))
            self._users.move_to_end(oldest)  # if it cannot go, another one has to
            oldest.let_tail_go()
