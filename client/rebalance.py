"""Which queues this member of a group owns, and how it loses and gains them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from aerobee.client.balance import Strategy
from aerobee.client.message import MessageQueue
from aerobee.client.process_queue import ProcessQueue
from aerobee.client.subscriptions import Subscription
from aerobee.remoting.errors import AerobeeError

if TYPE_CHECKING:
    from aerobee.client.instance import ClientInstance

log = logging.getLogger(__name__)

QueuesChanged = Callable[[str, list[MessageQueue], list[MessageQueue]], None]
"""Called with (topic, all its queues, ours) after our share has changed."""


class Ownership:
    """The queues that one member of a clustering group owns (RebalanceImpl.java).

    A round has three steps, and the instance lets all its groups finish one before any begins the
    next: `plan` computes the shares, `release` gives up what is lost, `take` begins what is gained.
    `find_start` tells where to begin a queue, `begin` starts the work on it, `end` finishes it.
    """

    def __init__(
        self,
        instance: "ClientInstance",
        group: str,
        strategy: Strategy,
        subscriptions: dict[str, Subscription],
        *,
        find_start: Callable[[MessageQueue], Awaitable[int]],
        begin: Callable[[MessageQueue, ProcessQueue], None],
        end: Callable[[MessageQueue, ProcessQueue], Awaitable[None]],
        idle_max_ms: int,
    ) -> None:
        self.queues: dict[MessageQueue, ProcessQueue] = {}
        self.on_changed: list[QueuesChanged] = []
        self._instance = instance
        self._group = group
        self._strategy = strategy
        self._subscriptions = subscriptions
        self._find_start = find_start
        self._begin = begin
        self._end = end
        self._idle_max_s = idle_max_ms / 1000
        self._shares: dict[str, _Share] = {}
        self._changed: set[str] = set()  # topics whose queues changed since they were announced

    async def plan(self) -> bool:
        """Compute this member's share of every topic; False if one could not be computed.

        A topic without route or member list keeps the queues that it has.
        """
        self._shares.clear()
        complete = True
        for topic in list(self._subscriptions):
            try:
                self._shares[topic] = await self._share(topic)
            except AerobeeError as error:
                complete = False
                log.warning("share unknown group=%s topic=%s error=%s", self._group, topic, error)
        return complete

    async def release(self) -> None:
        """End the work on the queues that the plan gives to others, and wait for the ends.

        Queues that nobody pulled for `idle_max_ms` are ended, too: they are taken again.
        """
        now = asyncio.get_running_loop().time()
        lost = []
        for queue, process in self.queues.items():
            share = self._shares.get(queue.topic)
            if queue.topic not in self._subscriptions or (
                share is not None and queue not in share.mine
            ):
                lost.append(queue)
            elif now - process.last_pull > self._idle_max_s:
                log.error(
                    "queue not pulled for %g s, taking it anew group=%s queue=%s",
                    self._idle_max_s,
                    self._group,
                    queue,
                )
                lost.append(queue)
        await self._end_all(lost)

    def takes_over(self) -> bool:
        """Whether the plan gives queues to this member that another one may be leaving now."""
        return any(
            len(share.client_ids) > 1 and share.mine - self.queues.keys()
            for share in self._shares.values()
        )

    async def take(self) -> bool:
        """Begin the work on the queues that the plan gives to this member.

        Returns False if a queue's starting offset could not be found: the next round tries again.
        """
        complete = True
        for topic, share in self._shares.items():
            for queue in sorted(share.mine - self.queues.keys()):
                complete &= await self._take_one(queue)
            if topic in self._changed:
                self._announce(topic, share)
        return complete

    async def release_all(self) -> None:
        """End the work on every queue: this member leaves."""
        await self._end_all(list(self.queues))

    async def drop(self, queue: MessageQueue) -> None:
        """End the work on one queue that is still ours; the next round takes it again."""
        await self._end_all([queue] if queue in self.queues else [])

    async def _share(self, topic: str) -> "_Share":
        route = await self._instance.routes.get(topic)
        client_ids = sorted(await self._instance.members(self._group, route))
        queues = list(route.read_queues)
        mine = self._strategy.allocate(self._group, self._instance.client_id, queues, client_ids)
        return _Share(queues, client_ids, set(mine))

    async def _take_one(self, queue: MessageQueue) -> bool:
        try:
            start = await self._find_start(queue)
        except AerobeeError as error:
            log.warning("queue not taken group=%s queue=%s error=%s", self._group, queue, error)
            return False
        process = self.queues[queue] = ProcessQueue(start)
        self._changed.add(queue.topic)
        log.info("queue taken group=%s queue=%s offset=%d", self._group, queue, start)
        self._begin(queue, process)
        return True

    async def _end_all(self, lost: Iterable[MessageQueue]) -> None:
        ending = []
        for queue in lost:
            process = self.queues.pop(queue)
            process.drop()
            self._changed.add(queue.topic)
            log.info("queue given up group=%s queue=%s", self._group, queue)
            ending.append(self._end(queue, process))
        if ending:
            for outcome in await asyncio.gather(*ending, return_exceptions=True):
                if isinstance(outcome, Exception):
                    log.error("ending a queue failed group=%s", self._group, exc_info=outcome)

    def _announce(self, topic: str, share: "_Share") -> None:
        self._changed.discard(topic)
        mine = sorted(queue for queue in self.queues if queue.topic == topic)
        log.info(
            "share changed group=%s topic=%s client=%s strategy=%s members=%d queues=%d mine=%s",
            self._group,
            topic,
            self._instance.client_id,
            self._strategy.name,
            len(share.client_ids),
            len(share.queues),
            [f"{queue.broker_name}:{queue.queue_id}" for queue in mine],
        )
        for callback in self.on_changed:
            try:
                callback(topic, list(share.queues), mine)
            except Exception:
                log.exception("on_queues_changed failed group=%s topic=%s", self._group, topic)


class _Share:
    """One topic's queues, the group's members, and what falls to this one."""

    __slots__ = ("client_ids", "mine", "queues")

    def __init__(
        self, queues: list[MessageQueue], client_ids: list[str], mine: set[MessageQueue]
    ) -> None:
        self.queues = queues
        self.client_ids = client_ids
        self.mine = mine
