"""Messages of one producer on their way: where they go, how many, and what becomes of them."""

import asyncio
from collections import deque
from contextvars import copy_context
from functools import partial
from time import monotonic
from typing import Any, Final

import msgspec

from aerobee.client.cluster.routes import TopicRoute
from aerobee.client.errors import InvalidUse, SendQueueFull
from aerobee.client.message import (
    Message,
    MessageQueue,
    SendResult,
    SendStatus,
    check_message,
    check_topic,
)
from aerobee.client.sending.arguments import check_timeout
from aerobee.client.sending.attempts import FirstAttempt, Pauses, sending_to
from aerobee.client.sending.choice import check_choice
from aerobee.client.sending.doors import Detour, Doors
from aerobee.client.sending.fast import Handle, Head, Heads, Ring, Sender, is_compiled
from aerobee.client.sending.handles import Bits
from aerobee.client.sending.lanes import ring_of
from aerobee.client.sending.outgoing import outgoing_of
from aerobee.client.sending.retries import worth_retrying
from aerobee.client.sending.selectors import QueueSelector
from aerobee.client.sending.unheard import UnheardFailures
from aerobee.remoting.errors import AerobeeError, NotConnected
from aerobee.remoting.message.message_id import UniqueIds
from aerobee.remoting.net.tasks import Tasks

TOPICS_KEPT: Final = 1_000  # whose requests are made ready
WORKERS_MAX: Final = 64  # messages of a producer on the checked path at a time
ROOM: Final = 0.75  # of what may be held: with so much `room` returns


class SoonSends:
    """Messages that `Producer.send_soon` has taken, from then to their outcome.

    A message goes to the lane of its queue's connection at once where that is open. What has to
    wait for a route, or was given a queue that nobody is connected to, stands in a line, so that
    messages keep their order; what fails in a lane, and what hooks look at, is sent by the checked
    path, some at a time.
    """

    def __init__(self, doors: Doors) -> None:
        settings = doors.settings
        self._doors = doors
        self._loop = asyncio.get_running_loop()
        self._heads: dict[str, Heads] = {}
        self._lines: dict[str | MessageQueue, deque[Handle]] = {}
        self._detours: deque[Handle] = deque()
        self._workers = 0
        self._tasks = Tasks()
        self._ending = self._ended = False
        self._room_waiters: list[asyncio.Future[None]] = []
        self._flush_waiters: list[asyncio.Future[None]] = []
        self._unheard = UnheardFailures(self._loop)
        self._held_bytes_max = settings.send_soon_bytes_max
        ids = UniqueIds()
        self.sender = Sender(
            self,
            self._loop,
            (doors.routes, self._heads, self._lines),
            (
                self._held_bytes_max,
                min(settings.body_bytes_max, settings.compress_over_bytes),
                settings.send_timeout_ms / 1000,
            ),
            (Message, SendResult, SendStatus.SEND_OK, ids),
        )
        ids.on_renewed = self.sender.forget_id
        self._nowhere = Head(self.sender, None, (b"", b"", b"", b""), doors.headers.frame_of)

    # --- what the producer asks ---

    def begin(
        self,
        message: Message,
        queue: MessageQueue | None,
        key: str | int | None,
        selector: QueueSelector | None,
        timeout_ms: int | None,
    ) -> Handle:
        """Take a message that the plain way has declined, or refuse it."""
        settings = self._doors.settings
        check_message(message, settings.body_bytes_max, settings.delay_level_max)
        check_topic(message.topic)
        check_choice(queue, key, selector)
        if self._ending:
            raise InvalidUse("the producer is closed, or about to be")
        if self.is_full:
            raise SendQueueFull(self.sender.held, self.sender.held_bytes)
        check_timeout(timeout_ms)
        budget_ms = settings.send_timeout_ms if timeout_ms is None else timeout_ms
        chosen = queue is not None or key is not None or selector is not None
        bits = Bits.COUNTED | (Bits.CHOSEN if chosen else 0)
        outgoing = self._doors.packer.pack(message)
        outgoing.body = bytes(outgoing.body)  # a bytearray may change before its turn comes
        topic = message.topic
        known = self._known(topic)
        if self._doors.plain and known is not None and topic not in self._lines and budget_ms > 0:
            target = self._doors.choice.choose(known, message, queue, key, selector)
            if target not in self._lines and (ring := self.ring_of(target)) is not None:
                head = self._head(known, target)
                timeout_s = budget_ms / 1000
                return self.sender.offer(head, ring, outgoing, None, bits, timeout_s)
            if chosen:
                queue, key, selector = target, None, None
        copy = msgspec.structs.replace(message, properties=dict(message.properties))
        held = Detour(copy, outgoing, queue, key, selector)
        if not self._doors.plain:
            held.context = copy_context()  # in which hooks are called
        deadline_s = monotonic() + budget_ms / 1000
        handle = self.sender.hold(self._nowhere, held, len(outgoing.body), bits, deadline_s)
        self._place(handle, held)
        return handle

    @property
    def is_full(self) -> bool:
        """Whether nothing more is taken now."""
        return self.sender.held_bytes >= self._held_bytes_max

    async def room(self) -> None:
        """Return when something is taken again."""
        while self.is_full:
            await self._waiter(self._room_waiters)

    async def flush(self) -> None:
        """Return when every message has its outcome."""
        while self.sender.held:
            await self._waiter(self._flush_waiters)

    async def finish(self) -> None:
        """Take nothing more, and return when every message has its outcome."""
        self._ending = True
        self._heads.clear()
        await self.flush()

    async def end(self) -> None:
        """Fail what has no outcome yet: its producer is gone."""
        self._ending = self._ended = True
        self._heads.clear()
        await self._tasks.close()
        left = [*self._detours, *(handle for line in self._lines.values() for handle in line)]
        self._detours.clear()
        self._lines.clear()
        for handle in left:
            handle._settle(NotConnected("the producer was closed before the message was sent"))
        self._unheard.end()

    async def _waiter(self, waiters: list[asyncio.Future[None]]) -> None:
        waiter = self._loop.create_future()
        waiters.append(waiter)
        self._watch()
        try:
            await waiter
        finally:
            if waiter in waiters:
                waiters.remove(waiter)

    def _watch(self) -> None:
        if self._room_waiters:
            self.sender.wake_bytes = int(self._held_bytes_max * ROOM)
        else:
            self.sender.wake_bytes = 0 if self._flush_waiters else -1

    # --- what lanes and handles tell ---

    def ring_of(self, queue: MessageQueue) -> Ring | None:
        """Return the ring of the connection to a queue's broker; None where none is open."""
        connection = self._doors.open(queue)
        ring = None if connection is None else ring_of(connection)
        if ring is not None and self._doors.outages.lasting:
            lane: Any = ring.lane
            lane.after_answer = partial(self._doors.outages.over, sending_to(queue))
        return ring

    def less(self) -> None:
        """No more is held than `_watch` has said."""
        waiters, self._room_waiters = self._room_waiters, []
        if not self.sender.held:
            waiters += self._flush_waiters
            self._flush_waiters = []
        self._watch()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def unheard(self, handle: Handle, error: BaseException) -> None:
        """Tell of a failure for which nobody waits yet."""
        self._unheard.add(error)

    def failed(self, handle: Handle, error: AerobeeError) -> None:
        """A message was sent in a lane, or its time was up there."""
        settings = self._doors.settings
        queue = handle.queue
        assert queue is not None
        if not handle.counted or handle.chosen or self._ended:
            handle._settle(error)  # of one that is not counted the caller decides
        elif not settings.retries_max or not worth_retrying(error):
            handle._settle(error)
        else:
            began_s = min(monotonic(), handle.deadline_s - settings.send_timeout_ms / 1000)
            self._take_out(handle, FirstAttempt(queue, error, began_s))
            self._detour(handle)

    def again(self, handle: Handle) -> None:
        """The connection of a message was lost before its turn came."""
        if not handle.counted or self._ended:
            handle._settle(NotConnected("the connection was lost before the send's turn came"))
        else:
            self._place(handle, self._take_out(handle, None))

    def _take_out(self, handle: Handle, first: FirstAttempt | None) -> Detour:
        """Make what the checked path needs of a message that was in a lane."""
        outgoing, queue = outgoing_of(handle), handle.queue
        if not outgoing.message_id:
            outgoing.message_id = self._doors.packer.next_id()
            pair = f"UNIQ_KEY\x01{outgoing.message_id}\x02"
            outgoing.properties = outgoing.properties.replace("UNIQ_KEY\x01\x02", pair, 1)
        message = Message(
            outgoing.topic, outgoing.body
        )  # hooks, who would look at it, are not there
        held = Detour(message, outgoing, queue if handle.chosen else None, first=first)
        handle._hold(held)
        return held

    # --- where a message goes ---

    def _known(self, topic: str) -> TopicRoute | None:
        """Return the route of a topic that the producer has sent to before."""
        route = self._doors.routes.get(topic)
        known = route is not None and route.write_queues and topic in self._doors.choice.turns
        return route if known else None

    def learn(self, route: TopicRoute) -> None:
        """Let the next message of a topic that is awaited go the plain way.

        It gains nothing from that in Python, where the checked path is as fast.
        """
        known = route.topic in self._doors.choice.turns and route.write_queues
        if is_compiled and self._doors.plain and known and not self._ending:
            self._heads_of(route)

    def _head(self, route: TopicRoute, queue: MessageQueue) -> Head:
        """Return what the requests to a queue begin with, made ready with those of its topic."""
        return self._heads_of(route).heads.get(queue) or self._new_head(queue)

    def _heads_of(self, route: TopicRoute) -> Heads:
        heads = self._heads.get(route.topic)
        if heads is None or heads.route is not route:
            if len(self._heads) >= TOPICS_KEPT:
                self._heads.clear()  # of topics that come and go, most are not used again
            every = [self._new_head(each) for each in route.write_queues]
            heads = Heads(route, every, self._doors.choice.turns[route.topic])
            if not self._ending:  # or messages would be taken as before
                self._heads[route.topic] = heads
        return heads

    def _new_head(self, queue: MessageQueue) -> Head:
        headers = self._doors.headers
        return Head(self.sender, queue, headers.parts(queue), headers.frame_of)

    def _place(self, handle: Handle, held: Detour) -> None:
        """Find the way of a message that is in no lane."""
        topic = held.outgoing.topic
        route = self._known(topic)
        if topic in self._lines or route is None:
            self._join(topic, handle)
            return
        choice = self._doors.choice
        try:
            target = choice.choose(route, held.message, held.queue, held.key, held.selector)
        except Exception as error:  # noqa: BLE001 - a selector is the user's
            handle._settle(error)
            return
        if handle.chosen:
            held.queue, held.key, held.selector = target, None, None
        left_s = handle.deadline_s - monotonic()
        if self._doors.plain and left_s > 0 and target not in self._lines:
            ring = self.ring_of(target)
            if ring is not None:
                self.sender.offer(self._head(route, target), ring, held.outgoing, handle, 0, left_s)
                return
        if handle.chosen:
            self._join(target, handle)
        else:
            self._detour(handle)

    def _join(self, name: str | MessageQueue, handle: Handle) -> None:
        """Stand in the line of a topic without a route, or of a queue that nobody serves yet."""
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = deque()
            self._tasks.start(self._serve(name, line), f"sends in line for {name}")
        line.append(handle)

    async def _serve(self, name: str | MessageQueue, line: deque[Handle]) -> None:
        """Have those of a line sent, in their order."""
        doors = self._doors
        pauses: Pauses | None = None
        while line:
            handle = line[0]
            try:
                if isinstance(name, str):
                    await doors.route(name, handle.deadline_s)
                elif not doors.plain:
                    await self._deliver(handle)
                    line.popleft()
                    continue
                else:
                    await doors.connect(name, handle.deadline_s)
            except Exception as error:  # noqa: BLE001 - whatever it is, all who wait hear of it
                if isinstance(error, NotConnected) and doors.settings.retries_max:
                    pauses = pauses or Pauses(handle.deadline_s)  # a broker may be back soon
                    if await pauses.wait():
                        continue
                    pauses = None
                _fail(line, error)
            else:
                break
        del self._lines[name]
        for handle in line:  # perhaps into another one
            self._place(handle, handle._held)

    def _detour(self, handle: Handle) -> None:
        """Have a message sent by the checked path."""
        self._detours.append(handle)
        if self._workers < WORKERS_MAX:
            self._workers += 1
            self._tasks.start(self._work(), "sends on the checked path")

    async def _work(self) -> None:
        try:
            while self._detours:
                await self._deliver(self._detours.popleft())
        finally:
            self._workers -= 1

    async def _deliver(self, handle: Handle) -> None:
        """Send one message by the checked path; its handle gets the outcome."""
        doors, held = self._doors, handle._held
        try:
            route = self._known(held.outgoing.topic)
            if route is None:
                route = await doors.route(held.outgoing.topic, handle.deadline_s)
            queues: Any = route.write_queues
            tries_max = 1 + doors.settings.retries_max
            if held.queue is not None:
                queues, tries_max = [held.queue], 1
            message, outgoing, deadline_s = held.message, held.outgoing, handle.deadline_s
            if held.first is not None:
                sending = doors.deliver_after(held.first, message, outgoing, tries_max, deadline_s)
            else:
                sending = doors.deliver([message], outgoing, queues, tries_max, deadline_s)
            if held.context is None:
                result = await sending
            else:
                result = await self._loop.create_task(sending, context=held.context)
        except Exception as error:  # noqa: BLE001 - a hook's, too
            handle._settle(error)
        except BaseException:
            handle._settle(NotConnected("the producer was closed while the message was sent"))
            raise
        else:
            handle._settle(result)


def _fail(line: deque[Handle], error: Exception) -> None:
    """Fail the first of a line, and all who waited for the same; others only if it had no time."""
    now_s = monotonic()
    was_late = line[0].deadline_s <= now_s
    everybody = list(line)
    line.clear()
    for handle in everybody:
        if was_late and handle.deadline_s > now_s:
            line.append(handle)
        else:
            handle._settle(error)
