"""Which client consumes which queue in order: leases of 60 s, by group (RebalanceLockManager)."""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from aerobee.remoting.bodies import QueueBody
from aerobee.remoting.complaints import Complaints

log = logging.getLogger(__name__)

LEASE_MS: Final = 60_000  # rocketmq.broker.rebalance.lockMaxLiveTime
ABANDONED_MS: Final = 35_000
"""How long the lock of a client lasts that is no member of the group on any connection: longer than
clients trust one that they could not renew, which is 30 s (REBALANCE_LOCK_MAX_LIVE_TIME)."""

SWEEP_MS: Final = 60_000


class QueueLocks:
    """Locks of queues; one that is not renewed for LEASE_MS is anybody's.

    A lock belongs to a client id, whatever connection asks: a client that reconnects keeps its own.
    One whose connections have all ended may be cut off and at work still, for as long as it trusts
    its locks; when that time is over, ABANDONED_MS after it renewed them, they are anybody's.
    `is_member(group, client_id)` tells who is connected. `locks_max` bounds what clients can put
    here; past it nothing new is locked.
    """

    def __init__(
        self,
        clock_ms: Callable[[], int],
        locks_max: int,
        is_member: Callable[[str, str], bool] = lambda group, client_id: True,
    ) -> None:
        self._clock_ms = clock_ms
        self._is_member = is_member
        self._locks_max = locks_max
        self._locks: dict[tuple[str, QueueBody], tuple[str, int]] = {}  # client id, renewed at
        self._renewed: dict[str, int] = {}  # by group, when any lock of it was taken or renewed
        self._swept_ms = clock_ms()
        self._complaints = Complaints(clock_ms, log)

    def __len__(self) -> int:
        return len(self._locks)

    def lock(self, group: str, client_id: str, queues: Iterable[QueueBody]) -> list[QueueBody]:
        """Lock queues, or renew their locks; return those that the client holds now."""
        now_ms = self._clock_ms()
        self._sweep(now_ms)
        held = []
        for queue in dict.fromkeys(queues):
            holder = self.holder(group, queue)
            known = (group, queue) in self._locks
            if holder not in (None, client_id) or (
                not known and len(self._locks) >= self._locks_max
            ):
                continue
            self._locks[group, queue] = client_id, now_ms
            held.append(queue)
        if held:
            self._renewed[group] = now_ms
        return held

    def is_ordered(self, group: str) -> bool:
        """Whether a group consumes in order: it has locked a queue in the last LEASE_MS.

        RocketMQ counts locks that are not expired (isLockAllExpired); a group that has just given
        up its last lock is still one that consumes in order.
        """
        renewed_ms = self._renewed.get(group)
        return renewed_ms is not None and self._clock_ms() - renewed_ms <= LEASE_MS

    def unlock(self, group: str, client_id: str, queues: Iterable[QueueBody]) -> None:
        """Give up the locks that the client holds; others' stay."""
        refused = []
        for queue in queues:
            known = self._locks.get((group, queue))
            if known is not None and known[0] == client_id:
                del self._locks[group, queue]
            elif known is not None:
                refused.append((queue, known[0]))
        if refused:
            self._complaints.tell(
                "unlock_refused group=%s client=%s queues=%d first=%s holder=%s",
                group,
                client_id,
                len(refused),
                *refused[0],
            )

    def holder(self, group: str, queue: QueueBody) -> str | None:
        """Return the client that holds a queue's lock."""
        known = self._locks.get((group, queue))
        if known is None:
            return None
        client_id, renewed_ms = known
        age_ms = self._clock_ms() - renewed_ms
        if age_ms <= ABANDONED_MS:
            return client_id
        return client_id if age_ms <= LEASE_MS and self._is_member(group, client_id) else None

    def _sweep(self, now_ms: int) -> None:
        """Forget locks that have ended; who asks next would find them so anyway."""
        if now_ms - self._swept_ms < SWEEP_MS:
            return
        self._swept_ms = now_ms
        for key, (_, renewed_ms) in list(self._locks.items()):
            if now_ms - renewed_ms > LEASE_MS:
                del self._locks[key]
        for group, renewed_ms in list(self._renewed.items()):
            if now_ms - renewed_ms > LEASE_MS:
                del self._renewed[group]
