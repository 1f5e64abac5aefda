"""One queue of Celery: a member of its group that takes no more than its channel has room for."""

import asyncio
import contextlib
import logging
from collections import deque
from typing import Final

from aerobee.client import (
    ClientError,
    ConsumeFrom,
    LitePullSettings,
    MessageQueue,
    PullSettings,
)
from aerobee.client.poll.acknowledging import Acknowledging
from aerobee.client.sync import LitePullConsumer
from aerobee.integrations.kombu import payload
from aerobee.integrations.kombu.deliveries import Arrivals, Delivery, Demand
from aerobee.integrations.kombu.link import Link
from aerobee.integrations.kombu.options import TransportOptions

log = logging.getLogger(__name__)

FETCHED_MAX: Final = 256
"""Messages that wait here until there is room; another worker cannot have them meanwhile."""
COMMIT_S: Final = 0.05
"""How long an acknowledgement may wait for others: their offsets are stored together."""
IDLE_S: Final = 2.0
"""How long a member stays that nobody asks for messages, and that has none in hand."""
LOOKS_A_TIMEOUT: Final = 4
"""How often, within a visibility time-out, somebody looks for what has been out for that long."""


class TopicSource(LitePullConsumer):
    """Takes the messages of one topic, and commits what is acknowledged, in each queue in order.

    Whatever is not acknowledged comes again when its queue goes to another member: after a crash,
    and after a close. `arrived` holds what waits for the channel; it belongs to both threads.
    """

    def __init__(
        self,
        names: tuple[str, str],
        link: Link,
        options: TransportOptions,
        room: Demand,
        arrivals: Arrivals,
    ) -> None:
        """Describe it; `names` are the topic and its group. Nothing happens before `start`."""
        self.topic, group = names
        super().__init__(
            group,
            namesrv=link.namesrv,
            client=link.client,
            consume_from=ConsumeFrom.FIRST,
            settings=LitePullSettings(
                handover_timeout_ms=round(options.handover_timeout * 1000),
                fetched_messages_max=FETCHED_MAX,
                pull=PullSettings(batch_bytes=2**31 - 1, suspend_ms=20_000),
            ),
        )
        self.subscribe(self.topic)
        self.arrived: deque[Delivery] = deque()
        self._link = link
        self._visible_s = options.visibility_timeout
        self._room = room.left
        self._wants = room.wanted
        self._arrivals = arrivals
        self._taking = Acknowledging(self._inner)
        self._taken: dict[MessageQueue, int] = {}  # the offset behind what was taken of each
        self._out: set[Delivery] = set()  # taken and not acknowledged, with a time-out
        self._wanted = asyncio.Event()
        self.left = False  # by itself: nobody wanted anything any more
        self._starved = False  # nothing is taken until there is room
        self._noted = False  # an acknowledgement is on its way to the loop's thread
        self._committing: asyncio.TimerHandle | None = None
        self._tasks: list[asyncio.Task[None]] = []

    # --- in the channel's threads ---

    def start(self, timeout_ms: int | None = None) -> None:
        """Join the group, and begin to take."""
        super().start(timeout_ms)
        self._in_loop(self._begin_to_take)

    def close(self) -> None:
        """Leave the group: what is acknowledged is committed, the rest goes to the others."""
        self._close(self._leave)

    def acknowledged(self) -> None:
        """Something was; from any thread, and also when it is too late."""
        if not self._noted:
            self._noted = True  # first: it may be counted at once
            if not self._post(self._count):
                self._noted = False
        self._arrivals.tell()

    def make_room(self) -> None:
        """There may be room for more."""
        if self._starved:
            self._post(self._wanted.set)

    def has_more(self) -> bool:
        """Whether the topic has something that this member has neither taken nor passed over."""
        newest = self._link.newest(self.topic)
        return any(end > at for at, end in zip(newest.values(), self._reached(newest), strict=True))

    def skip(self, offsets: dict[MessageQueue, int]) -> None:
        """Go on at these offsets, with nothing left of what waits here."""
        self._run(self._inner.reset_offsets(offsets))
        self.arrived.clear()

    def _reached(self, newest: dict[MessageQueue, int]) -> list[int]:
        return self._run(self._find_reached(list(newest)))

    # --- in the loop's thread ---

    def _begin_to_take(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(self._take_all()))
        self._idling = loop.create_task(self._leave_when_idle())
        if self._visible_s is not None:
            self._tasks.append(loop.create_task(self._look_for_overdue(self._visible_s)))

    async def _leave_when_idle(self) -> None:
        """Give the queues to others when this has been of no use twice in a row."""
        idle = 0
        while idle < 2:
            await asyncio.sleep(IDLE_S / 2)
            idle = idle + 1 if self._is_idle() else 0
        self.left = True
        self.arrived.clear()
        await self._leave()

    def _is_idle(self) -> bool:
        in_hand = self._taking.unfinished - len(self.arrived)
        return not self._wants() and in_hand <= 0

    async def _leave(self) -> None:
        if asyncio.current_task() is not self._idling:
            self._idling.cancel()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._committing is not None:
            self._committing.cancel()
        self._count()
        await self._taking.leave()

    async def _take_all(self) -> None:
        """Take one message after the other, as long as there is room."""
        while True:
            self._starved = True  # first, so that nobody makes room unheard
            while self._room() <= 0:
                await self._wanted.wait()
                self._wanted.clear()
            self._starved = False
            delivery = Delivery(self)
            message = await self._taking.next(delivery)  # done when it is acknowledged
            if message is None:
                return
            delivery.message = message
            self._taken[message.queue] = message.queue_offset + 1
            delivery.since_s = asyncio.get_running_loop().time()
            if self._visible_s is not None:
                self._out.add(delivery)
            self.arrived.append(delivery)
            self._arrivals.tell()

    def _count(self) -> None:
        """Let offsets pass what is acknowledged, and see to it that they are stored."""
        self._noted = False
        if not self._taking.count():
            return
        self._wanted.set()
        if self._committing is None:
            loop = asyncio.get_running_loop()
            self._committing = loop.call_later(COMMIT_S, self._commit_soon)

    def _commit_soon(self) -> None:
        self._committing = None
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(asyncio.get_running_loop().create_task(self._taking.commit()))

    async def _find_reached(self, wanted: list[MessageQueue]) -> list[int]:
        """Return how far this member is in each; in another's queues, how far that has got."""
        found: list[int] = []
        for queue in wanted:
            reached = self._taking.reached(queue)
            if reached is None:
                reached = await self._inner.committed(queue) or 0
            elif queue in self._taken:
                reached = self._taken[queue]
            found.append(reached)
        return found

    async def _look_for_overdue(self, visible_s: float) -> None:
        """Give to others what a worker has had for too long; it may go on with it."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(visible_s / LOOKS_A_TIMEOUT)
            self._out = {each for each in self._out if not each.done()}
            overdue = [each for each in self._out if loop.time() - each.since_s >= visible_s]
            for delivery in overdue:
                await self._give_back(delivery)

    async def _give_back(self, delivery: Delivery) -> None:
        message = delivery.message
        try:
            body = payload.unpacked(message)
            await self._link.putting(payload.again(self.topic, body, message))
        except (ClientError, ValueError) as error:
            log.warning("not given back, tried again later: %r error=%s", message, error)
            return
        log.warning("not acknowledged in time, given back: %r", message)
        with contextlib.suppress(KeyError):
            self._out.remove(delivery)
        delivery.acknowledge()
