"""Keeps the locks of the queues that this member consumes in order."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from aerobee.client.message import MessageQueue
from aerobee.client.settings import PushSettings
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.net.tasks import Tasks

log = logging.getLogger(__name__)


class Locks(Protocol):
    """Asks brokers for locks (queue_locks.QueueLocks)."""

    async def lock(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Ask for these locks, or for more time with them; return the queues that are ours now."""
        ...


class Back:
    """A lock that has come back and is not used yet; `asked` is when it was asked for last."""

    __slots__ = ("asked",)

    def __init__(self, asked: float) -> None:
        self.asked = asked


class LockKeeper:
    """Takes locks, renews them, and tells for how long to trust them (RebalanceImpl.lockAll).

    Only the locks of queues that have begun are renewed: one that is locked and then not taken may
    be another member's by now. A lock is trusted for `lock_trusted_ms` after it was asked for;
    brokers keep it for longer, so that nobody else has it while it is trusted here. One that could
    not be renewed is not trusted any more; it is asked for every `lock_retry_ms`. When it comes
    back, or was not trusted for a moment, `regained` is awaited first, beside the others: somebody
    else may have gone on meanwhile. A queue that is given up keeps its lock while its handlers end,
    but is not asked for again once that is lost. `clock` is in seconds.
    """

    def __init__(
        self,
        locks: Locks,
        settings: PushSettings,
        regained: Callable[[MessageQueue], Awaitable[None]],
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._locks = locks
        self._regained = regained
        self._interval_s = settings.lock_interval_ms / 1000
        self._retry_s = settings.lock_retry_ms / 1000
        self._trusted_s = settings.lock_trusted_ms / 1000
        self._clock = clock or asyncio.get_running_loop().time
        self._taken: dict[MessageQueue, float] = {}  # and perhaps not begun
        self._since: dict[MessageQueue, float] = {}
        self._refused: set[MessageQueue] = set()
        self._back: dict[MessageQueue, Back] = {}  # refused once, and granted again
        self._looks = Tasks()
        self._ending: set[MessageQueue] = set()

    async def take(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Lock queues that are about to become ours; return those that may be taken."""
        asked = self._clock()
        granted = await self._locks.lock(queues)
        self._taken.update(dict.fromkeys(granted, asked))
        return granted

    def begin(self, queue: MessageQueue) -> None:
        """Trust and renew the lock of a queue that was taken and is consumed from now on."""
        self._since[queue] = self._taken.pop(queue)

    def trusted(self, queue: MessageQueue) -> bool:
        """Whether a queue is locked for us, and nobody else can have it."""
        since = self._since.get(queue)
        return since is not None and self._clock() - since <= self._trusted_s

    def since(self, queue: MessageQueue) -> float | None:
        """When the lock of a queue was asked for last, in the loop's time; None without lock."""
        return self._since.get(queue)

    def end(self, queue: MessageQueue) -> None:
        """Renew the lock of a queue that is given up until `forget`, unless it is lost before.

        Where it is lost already another member may be at work: what we have done does not count.
        """
        self._refused.discard(queue)
        self._ending.add(queue)

    def forget(self, queue: MessageQueue) -> None:
        """Renew the lock of a queue no more: it is not ours any longer."""
        self._since.pop(queue, None)
        self._refused.discard(queue)
        self._ending.discard(queue)

    async def run(self) -> None:
        """Renew all locks, again and again."""
        try:
            while True:
                await asyncio.sleep(
                    min(self._retry_s, self._interval_s) if self._refused else self._interval_s
                )
                try:
                    await self.renew()
                except Exception:  # one failed round must not end the rounds
                    log.exception("renewing locks failed")
        finally:
            self._looks.cancel()

    async def renew(self) -> None:
        """Ask for every lock once."""
        asked = self._clock()
        wanted = self._since.keys() | self._refused
        if not wanted:
            return
        granted = await self._locks.lock(wanted)
        for queue in sorted(wanted):
            if queue not in self._since and queue not in self._refused:
                continue  # lost while the brokers were asked
            since = self._since.get(queue)
            if queue in granted and since is not None and asked - since <= self._trusted_s:
                self._since[queue] = asked
                continue
            self._since.pop(queue, None)
            if queue in self._ending:
                log.warning("lock of a queue that is given up is lost queue=%s", queue)
                continue
            self._refused.add(queue)
            if queue not in granted:
                self._back.pop(queue, None)  # and what is looked at is no longer so
                log.warning("lock not renewed queue=%s", queue)
            elif queue in self._back:
                self._back[queue].asked = asked
            else:
                back = self._back[queue] = Back(asked)
                self._looks.start(self._look(queue, back), f"lock of {queue}")

    async def _look(self, queue: MessageQueue, back: Back) -> None:
        """Use a lock that has come back, once it is known that nobody has consumed meanwhile.

        The other locks are renewed while this takes its time: it waits for a broker, and where
        somebody has consumed for handlers.
        """
        try:
            await self._regained(queue)
            if self._back.get(queue) is back and queue in self._refused:  # else lost, or given up
                self._refused.discard(queue)
                self._since[queue] = back.asked
        except AerobeeError as error:
            log.warning("lock not used yet queue=%s error=%s", queue, error)
        finally:
            if self._back.get(queue) is back:
                del self._back[queue]
