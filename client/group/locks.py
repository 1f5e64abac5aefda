"""Locks of queues that are consumed in order: asked for in brokers, trusted, given back."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from aerobee.client.message import MessageQueue
from aerobee.client.settings import PushSettings
from aerobee.remoting import bodies
from aerobee.remoting.bodies import LockBatchBody, LockBatchReply, decode_body, encode_body
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.net.tasks import Tasks

if TYPE_CHECKING:
    from aerobee.client.instance.client_instance import ClientInstance

log = logging.getLogger(__name__)


class GroupLocks:
    """Asks the brokers for locks of one group, and gives them back (RebalanceImpl.lockAll, unlock).

    A broker gives a lock to one client of a group at a time, and takes it back when it was not
    asked for again within 60 s. Aerobee's broker takes an unlock from any clustering member as the
    word that a queue is given up; others hear of it where locks are `required` alone.
    """

    def __init__(self, instance: "ClientInstance", group: str, *, required: bool = False) -> None:
        self.required = required  # no queue is taken without its lock
        self._instance = instance
        self._group = group

    async def lock(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Ask for these locks, or for more time with them; return the queues that are ours now.

        A broker that fails or does not answer grants none; that is logged.
        """
        by_address = await self._by_address(queues)
        granted = await asyncio.gather(*(self._lock_at(*each) for each in by_address.items()))
        return set().union(*granted)

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Give these queues to whom asks next, and wait for the answers; failures are logged."""
        by_address = await self._by_address(queues)
        await asyncio.gather(*(self._unlock_at(*each) for each in by_address.items()))

    async def _by_address(self, queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
        by_address: dict[str, list[MessageQueue]] = {}
        for queue in sorted(queues):
            try:
                address = await self._instance.routes.broker_address(queue)
            except AerobeeError as error:
                log.warning("no broker for a lock group=%s queue=%s: %s", self._group, queue, error)
            else:
                by_address.setdefault(address, []).append(queue)
        return by_address

    async def _lock_at(self, address: str, queues: list[MessageQueue]) -> set[MessageQueue]:
        try:
            reply = await self._instance.connections.request(
                address, RequestCode.LOCK_BATCH_MQ, body=self._body(queues)
            )
            granted = decode_body(LockBatchReply, reply.body).lock_ok_mq_set
        except AerobeeError as error:
            log.warning("lock failed group=%s broker=%s error=%s", self._group, address, error)
            return set()
        except Exception:  # what the other brokers grant counts all the same
            log.exception("lock failed group=%s broker=%s", self._group, address)
            return set()
        return {*queues} & {MessageQueue.of(queue) for queue in granted}

    async def _unlock_at(self, address: str, queues: list[MessageQueue]) -> None:
        if not self.required and not self._instance.heartbeats.offers_handover(address):
            return
        try:
            await self._instance.connections.request(
                address, RequestCode.UNLOCK_BATCH_MQ, body=self._body(queues)
            )
        except AerobeeError as error:
            log.warning("unlock failed group=%s broker=%s error=%s", self._group, address, error)
        except Exception:
            log.exception("unlock failed group=%s broker=%s", self._group, address)

    def _body(self, queues: list[MessageQueue]) -> bytes:
        return encode_body(
            LockBatchBody(
                consumer_group=self._group,
                client_id=self._instance.client_id,
                mq_set=[bodies.QueueBody(*queue) for queue in queues],
            )
        )


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
        locks: GroupLocks,
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
