"""How much of each queue one trigger takes: arithmetic that knows no store and no Spark.

A limit is shared out in proportion to what waits in each queue, as Spark's Kafka source does it.
Where it is too small for all queues they take turns: the first that got nothing is the first to
get something the next time, so that no queue waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from aerobee.remoting.message.layout import RECORD_BYTES_MIN
from aerobee.spark.offsets import BrokerQueue
from aerobee.spark.records.layout import Ints

SIZES_READ = 1 << 16  # record sizes of one queue looked at together
SAMPLE = 64  # records that tell how long a queue's are
BYTE_ROUNDS = 4  # in which bytes that some queues left over go to others

Counts = dict[BrokerQueue, int]
Sizes = Callable[[BrokerQueue, int, int], Ints]  # of a queue's waiting messages: from, count


class Turns:
    """Whose turn it is where a limit does not suffice for all."""

    def __init__(self) -> None:
        self._next: BrokerQueue | None = None

    def order(self, keys: Mapping[BrokerQueue, int]) -> list[BrokerQueue]:
        """The queues, those first whose turn it is."""
        ordered = sorted(keys)
        if self._next is None:
            return ordered
        at = next((n for n, key in enumerate(ordered) if key >= self._next), 0)
        return ordered[at:] + ordered[:at]

    def took(self, order: list[BrokerQueue], taken: Mapping[BrokerQueue, int]) -> None:
        """Remember who got something."""
        unserved = (key for key in order if not taken.get(key))
        self._next = next(unserved, order[1] if len(order) > 1 else None)


def share_messages(waiting: Counts, order: list[BrokerQueue], limit: int) -> Counts:
    """How many of each queue's `waiting` messages to take: exactly `limit`, or all of them.

    Each queue gets one at least, as far as the limit goes in the given order of queues, and of
    what is left a part as large as its own of all that wait.
    """
    total = sum(waiting.values())
    if total <= limit:
        return dict(waiting)
    if limit <= len(order):
        return dict.fromkeys(order[:limit], 1)
    rest, others = limit - len(order), total - len(order)
    taken = {key: 1 + rest * (waiting[key] - 1) // others for key in order}
    left = limit - sum(taken.values())
    for key in order:
        if left and taken[key] < waiting[key]:
            taken[key] += 1
            left -= 1
    return taken


def share_bytes(allowed: Counts, order: list[BrokerQueue], limit: int, sizes: Sizes) -> Counts:
    """How many of each queue's `allowed` messages to take, so that their records fit a limit.

    The first queue in order gets its next message in any case, alone if it is longer than the
    limit.
    """
    takers = {key: _Taker(key, allowed[key], sizes) for key in order}
    left = limit - takers[order[0]].take(1, limit=None)
    for _ in range(BYTE_ROUNDS):
        if left <= 0:
            break
        open_takers = [each for each in takers.values() if each.left]
        total = sum(each.estimate for each in open_takers)
        used = sum(each.take(each.left, left * each.estimate // total) for each in open_takers)
        left -= used
        if not used:
            break
    for each in takers.values():
        if left > 0 and each.left:
            left -= each.take(1, left)
    return {key: each.taken for key, each in takers.items() if each.taken}


class _Taker:
    """One queue that takes messages as long as their records fit."""

    def __init__(self, key: BrokerQueue, allowed: int, sizes: Sizes) -> None:
        self.taken = 0
        self.left = allowed
        self._key = key
        self._sizes = sizes
        sample = sizes(key, 0, min(SAMPLE, allowed))
        self._mean = max(1, int(sample.sum()) // max(1, len(sample)))

    @property
    def estimate(self) -> int:
        """About how many bytes are left."""
        return self.left * self._mean

    def take(self, count: int, limit: int | None) -> int:
        """Take up to `count` messages whose records fit; return how many bytes they are."""
        used = 0
        while count:
            room = count if limit is None else 1 + (limit - used) // RECORD_BYTES_MIN
            asked = min(count, SIZES_READ, room)
            sums = np.cumsum(self._sizes(self._key, self.taken, asked))
            if not len(sums):  # gone meanwhile; whoever reads them will say so
                self.taken, self.left = self.taken + self.left, 0
                break
            fit = len(sums)
            if limit is not None:
                fit = int(np.searchsorted(sums, limit - used, "right"))
            if fit:
                used += int(sums[fit - 1])
            self.taken, self.left, count = self.taken + fit, self.left - fit, count - fit
            if fit < asked:
                break
        return used
