"""Which queues this member of a group owns, and how it loses and gains them."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from aerobee.client.errors import BrokerRefused, RouteMissing
from aerobee.client.group.locks import GroupLocks
from aerobee.client.group.member import Membership
from aerobee.client.group.reach import Reach
from aerobee.client.group.shares import ShareFinder, TopicShare
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.net.tasks import Tasks
from aerobee.remoting.words import RETRY_PREFIX

log = logging.getLogger(__name__)

ASKED_AT_A_TIME: Final = 64  # starting offsets; the others wait in line
ASK_GAP_S: Final = 0.1  # between two questions for a queue that is not given up yet
LOCK_RETRY_S: Final = 0.2  # Java's clients ask for refused locks again after 500 ms

QueuesChanged = Callable[[str, list[MessageQueue], list[MessageQueue]], None]
"""Called with (topic, all its queues, ours) after our share has changed."""


class QueueWork(Protocol):
    """What a consumer does with a queue that becomes its own, in this order."""

    async def may_take(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Narrow new queues down to those that may be begun."""
        ...

    async def find_start(self, queue: MessageQueue) -> int:
        """Return the offset to begin at, once the former owner has released the queue."""
        ...

    def begin(self, queue: MessageQueue, process: ProcessQueue) -> None:
        """Fetch it, and see to what is fetched."""
        ...

    async def end(self, queue: MessageQueue, process: ProcessQueue) -> None:
        """Let what runs end, and store the offset: the queue is lost, and dropped."""
        ...


class Ownership:
    """The queues that one member of a group owns (RebalanceImpl.java).

    A round has three steps: `plan` computes the shares, `release` begins to give up what is lost,
    `take` begins to gain the rest. Giving up waits for handlers, gaining for releases: first for
    all those of this client, then, at the broker, for the former owner's. Nothing that is given up
    ever waits for something that is gained, nor does a round wait for either; so members that wait
    for each other's queues all get on.
    """

    def __init__(
        self,
        member: Membership,
        shares: ShareFinder,
        work: QueueWork,
        locks: GroupLocks,
        idle_max_ms: int,
    ) -> None:
        self.on_changed: list[QueuesChanged] = []
        self._member = member
        self._instance = member.instance
        self._group = member.group
        self._subscriptions = member.subscriptions
        self._share_finder = shares
        self._work = work
        self._locks = locks
        self._idle_max_s = idle_max_ms / 1000
        self.reach = Reach(member.group, member.instance.routes.outages)
        self._queues: dict[MessageQueue, ProcessQueue] = {}
        self._ending: dict[MessageQueue, ProcessQueue] = {}
        self._shares: dict[str, TopicShare] = {}
        self._changed: set[str] = set()  # topics whose queues changed since they were announced
        self._taking: set[MessageQueue] = set()
        self._locked_out: set[MessageQueue] = set()  # to be taken when others give up their locks
        self._between: set[MessageQueue] = set()  # not ours, and a broker may hold them for us
        self._asking = asyncio.Semaphore(ASKED_AT_A_TIME)
        self._gains = Tasks()
        self._losses = Tasks()
        self._ends: set[asyncio.Task[Any]] = set()
        self._closed = False

    @property
    def queues(self) -> Mapping[MessageQueue, ProcessQueue]:
        """The queues that are owned now."""
        return self._queues

    @property
    def ending(self) -> Mapping[MessageQueue, ProcessQueue]:
        """Those that are lost, and not given up yet."""
        return self._ending

    # --- the three steps of a round ---

    async def plan(self) -> bool:
        """Compute this member's share of every topic; False if one could not be computed.

        A topic without route or member list keeps the queues that it has.
        """
        for topic in self._shares.keys() - self._subscriptions.keys():
            del self._shares[topic]
        planned = all(await asyncio.gather(*map(self._plan, list(self._subscriptions))))
        self.reach.judge(self._subscriptions)
        return planned

    def release(self) -> None:
        """Begin to give up the queues that the plan gives to others.

        Queues that nobody pulled for `idle_max_ms` are ended, too: they are taken again. What was
        to be taken again, or could not be, and falls to another member now, is given up as well.
        """
        now = asyncio.get_running_loop().time()
        for queue, process in list(self._queues.items()):
            if not self._wanted(queue):
                self._lose(queue, give_up=True)
            elif now - process.last_pull > self._idle_max_s:
                log.error(
                    "queue not pulled for %g s, taking it anew group=%s queue=%s",
                    self._idle_max_s,
                    self._group,
                    queue,
                )
                self._lose(queue, give_up=False)
        between = self._between - self._taking
        if others := {queue for queue in between if not self._wanted(queue)}:
            self._between -= others
            self._released_by(self._losses.start(self._give_up(others), "give up queues"))

    def take(self) -> None:
        """Begin to gain the queues that the plan gives to this member."""
        mine: set[MessageQueue] = set().union(*(share.mine for share in self._shares.values()))
        begun = self._taking | self._locked_out
        if new := {*filter(self._wanted, mine)} - self._queues.keys() - begun:
            self._taking |= new
            self._gains.start(self._gain(new), "gain queues")

    # --- outside of the rounds ---

    async def release_all(self) -> None:
        """Give up every queue, and wait for that: this member leaves.

        Who cancels it leaves at once: what has not been given up is found out by the brokers.
        """
        self._closed = True
        begun = self._taking | self._locked_out | self._between
        abandoned = sorted(begun - self._ending.keys())  # what ends is given up when it has
        try:
            await self._gains.close()
            for queue in list(self._queues):
                self._lose(queue, give_up=True)
            await self._give_up(abandoned)
            if self._ends:
                await asyncio.wait(self._ends)
        finally:
            await self._losses.close()

    def abandon(self) -> None:
        """Own nothing any more, at once: nothing is awaited, stored or given up."""
        self._closed = True
        for process in self._queues.values():
            process.drop()
        self._queues.clear()
        self._gains.cancel()
        self._losses.cancel()

    def replace(self, queue: MessageQueue, process: ProcessQueue) -> None:
        """Have this in place of what was fetched of a queue that is ours and stays so."""
        self._queues[queue] = process

    async def drop(self, queue: MessageQueue) -> None:
        """End the work on one queue that is still ours; the next round takes it again."""
        if queue in self._queues and (ending := self._lose(queue, give_up=False)) is not None:
            await asyncio.wait([ending])

    async def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """End the work on those of these queues that are ours, and take them again from there.

        What was fetched is dropped; handlers that run may end, and count for nothing.
        """
        ending = []
        for queue, offset in offsets.items():
            if (process := self._queues.get(queue)) is not None:
                process.correct(offset)
                if (task := self._lose(queue, give_up=False)) is not None:
                    ending.append(task)
        if ending:
            await asyncio.wait(ending)

    # --- planning ---

    async def _plan(self, topic: str) -> bool:
        try:
            share = await self._share_finder.find(topic)
        except AerobeeError as error:
            if isinstance(error, RouteMissing) and topic.startswith(RETRY_PREFIX):
                self.reach.shared(topic)
                return True  # the first message that is sent back creates it
            owned = any(queue.topic == topic for queue in self._queues)
            self.reach.not_shared(topic, error, owned=owned)
            return False
        except Exception:
            log.exception(
                "strategy failed allocateMessageQueueStrategyName=%s group=%s topic=%s",
                self._share_finder.strategy.name,
                self._group,
                topic,
            )
            return False
        self.reach.shared(topic)
        before = self._shares.get(topic)
        self._shares[topic] = share
        if share.mine != (before.mine if before is not None else set()):
            self._log(topic, share)
        return True

    def _log(self, topic: str, share: TopicShare) -> None:
        """Tell of a new result in the words by which RocketMQ's users find theirs."""
        members = (
            f", cidAllSize={len(share.client_ids)}" if share.client_ids else ""
        )  # else unknown
        log.info(
            "%s rebalanced result changed. allocateMessageQueueStrategyName=%s, group=%s, topic=%s,"
            " clientId=%s, mqAllSize=%d%s, rebalanceResultSize=%d, rebalanceResultSet=%s",
            "client" if share.client_ids or self._member.broadcasting else "broker",
            self._share_finder.strategy.name,
            self._group,
            topic,
            self._instance.client_id,
            len(share.queues),
            members,
            len(share.mine),
            [f"{queue.broker_name}:{queue.queue_id}" for queue in sorted(share.mine)],
        )

    def _wanted(self, queue: MessageQueue) -> bool:
        """Whether a queue is ours by what is known at this moment."""
        if self._closed or queue.topic not in self._subscriptions:
            return False
        share = self._shares.get(queue.topic)
        return share is None or queue in share.mine

    # --- losing ---

    def _lose(self, queue: MessageQueue, *, give_up: bool) -> asyncio.Task[Any] | None:
        process = self._ending[queue] = self._queues.pop(queue)
        process.drop()
        self._changed.add(queue.topic)
        task = self._losses.start(self._finish(queue, process, give_up=give_up), f"end {queue}")
        self._released_by(task)
        return task

    def _released_by(self, task: asyncio.Task[Any] | None) -> None:
        """Take nothing, and do not leave, before this has ended."""
        if task is not None:
            self._ends.add(task)
            task.add_done_callback(self._ends.discard)
            self._instance.rebalancing.releasing(task)

    async def _finish(self, queue: MessageQueue, process: ProcessQueue, *, give_up: bool) -> None:
        try:
            await self._work.end(queue, process)
        except Exception:
            log.exception("ending a queue failed group=%s queue=%s", self._group, queue)
        try:
            if give_up or self._closed:
                await self._give_up([queue])
                log.info("queue given up group=%s queue=%s", self._group, queue)
            else:
                self._between.add(queue)  # until it is taken anew, or falls to another member
        finally:
            del self._ending[queue]
            self._announce(queue.topic)

    async def _give_up(self, queues: Iterable[MessageQueue]) -> None:
        """Tell the brokers that queues are free; those of a broadcasting member always are."""
        if not self._member.broadcasting:
            await self._locks.unlock(queues)

    # --- gaining ---

    async def _gain(self, queues: set[MessageQueue]) -> None:
        """Take these queues, as soon as everything that was lost is given up.

        Those whose locks others hold are asked for until they are granted, or not ours any more:
        that concerns no other queue, and is no reason to share anew.
        """
        try:
            while queues:
                await self._instance.rebalancing.released()
                granted = await self._work.may_take(sorted(queues))
                queues = queues - granted
                self._taking |= granted
                self._locked_out -= granted
                for queue in sorted(granted):
                    self._gains.start(self._take(queue), f"take {queue}")
                if queues:
                    self._locked_out |= queues
                    self._untake(queues)
                    await asyncio.sleep(LOCK_RETRY_S)
                    gone = {queue for queue in queues if not self._wanted(queue)}
                    self._locked_out -= gone
                    queues = queues - gone
        except Exception:
            log.exception("queues not taken group=%s queues=%s", self._group, sorted(queues))
            self._instance.rebalancing.later()
        finally:
            self._locked_out -= queues
            self._untake(queues)

    def _untake(self, queues: set[MessageQueue]) -> None:
        """Take these queues no more, or not yet."""
        self._taking -= queues
        for topic in sorted({queue.topic for queue in queues}):
            self._announce(topic)

    async def _take(self, queue: MessageQueue) -> None:
        self._between.add(queue)
        try:
            start = await self._start(queue)
        except AerobeeError as error:
            self.reach.not_taken(queue, error)
            self._instance.rebalancing.later()
        except Exception:
            log.exception("queue not taken group=%s queue=%s", self._group, queue)
            self._instance.rebalancing.later()
        else:
            self._between.discard(queue)
            if start is None or not self._wanted(queue):
                await self._give_up([queue])  # the broker may have made it ours in the meantime
            else:
                self.reach.taken(queue)
                process = self._queues[queue] = ProcessQueue(start)
                self._changed.add(queue.topic)
                log.info("queue taken group=%s queue=%s offset=%d", self._group, queue, start)
                self._work.begin(queue, process)
        finally:
            self._taking.discard(queue)
            self._announce(queue.topic)

    async def _start(self, queue: MessageQueue) -> int | None:
        """Return where to begin, once the former owner has released the queue.

        None if the queue has gone to somebody else while we waited.
        """
        if not self._locks.required and self._comes_unannounced(queue):
            await asyncio.sleep(self._instance.settings.takeover_delay_ms / 1000)
        clock = asyncio.get_running_loop().time
        while self._wanted(queue):
            asked = clock()
            try:
                async with self._asking:
                    return await self._work.find_start(queue)
            except BrokerRefused as error:
                if error.code != ResponseCode.HANDOVER_PENDING:
                    raise
            await asyncio.sleep(max(0.0, asked + ASK_GAP_S - clock()))
        return None

    def _comes_unannounced(self, queue: MessageQueue) -> bool:
        """Whether another member may be storing the queue's offset, and nobody tells us when."""
        share = self._shares.get(queue.topic)
        if share is None or self._member.broadcasting or len(share.client_ids) == 1:
            return False
        address = self._instance.routes.address(queue.broker_name)
        return address is None or not self._instance.heartbeats.offers_handover(address)

    # --- telling ---

    def _announce(self, topic: str) -> None:
        """Tell of a change when nothing of the topic is on its way any more."""
        under_way = (*self._ending, *self._taking)
        if (
            self._closed
            or topic not in self._changed
            or any(queue.topic == topic for queue in under_way)
        ):
            return
        self._changed.discard(topic)
        share = self._shares.get(topic)
        mine = sorted(queue for queue in self._queues if queue.topic == topic)
        for callback in self.on_changed:
            try:
                callback(topic, list(share.queues) if share is not None else [], list(mine))
            except Exception:
                log.exception("on_queues_changed failed group=%s topic=%s", self._group, topic)
