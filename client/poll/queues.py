"""The queues that a lite pull consumer reads: what is fetched of them, and how far they are."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aerobee.client.errors import InvalidUse
from aerobee.client.group.member import Membership
from aerobee.client.group.offsets import OffsetStore
from aerobee.client.group.ownership import Ownership
from aerobee.client.hooks import Hooks
from aerobee.client.message import MessageQueue
from aerobee.client.poll.fetched import FetchedMessages
from aerobee.client.pulls.loop import PullLoop
from aerobee.client.pulls.process_queue import ProcessQueue, QueueStatistics
from aerobee.client.pulls.puller import Puller, PullTerms
from aerobee.client.pulls.subscriptions import Subscription
from aerobee.client.received import ReceivedMessage
from aerobee.client.settings import LitePullSettings
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.net.tasks import Tasks


class LiteQueues:
    """A pull loop for each queue that is owned, or given (AssignedMessageQueue.java).

    It lives from the consumer's start to its end, and `fetched` with it. While queues are given
    `ownership` is None; `wanted` tells what of their topics.
    """

    def __init__(
        self,
        member: Membership,
        settings: LitePullSettings,
        offsets: OffsetStore,
        hooks: Hooks,
        wanted: Callable[[str], Subscription],
    ) -> None:
        self.ownership: Ownership | None = None
        self.offsets = offsets
        self.fetched = FetchedMessages()
        self.paused: set[MessageQueue] = set()
        self._member = member
        self._settings = settings
        self._terms = PullTerms(member.group, settings.pull, hooks, lite=True)
        self._wanted = wanted
        self._given: dict[MessageQueue, ProcessQueue] = {}
        self._pulling: dict[MessageQueue, asyncio.Task[Any]] = {}
        self._tasks = Tasks()
        self._assigning = asyncio.Lock()
        self._closed = False

    async def close(self) -> None:
        """End every given queue and stop what still runs."""
        self._closed = True
        try:
            await self._take_away(list(self._given))
        finally:
            await self._tasks.close()

    # --- which ---

    def all(self) -> Mapping[MessageQueue, ProcessQueue]:
        """Return the queues that are read."""
        return self.ownership.queues if self.ownership is not None else self._given

    def of(self, queue: MessageQueue) -> ProcessQueue:
        """Return a queue that is read; raises InvalidUse for any other."""
        process = self.all().get(queue)
        if process is None:
            raise InvalidUse(
                f"{queue} is not assigned to this consumer; another member of the group may have"
                " taken it over"
            )
        return process

    async def assign(self, wanted: set[MessageQueue]) -> None:
        """Read exactly these queues; the next change begins when this one is complete."""
        async with self._assigning:
            await self._take_away([queue for queue in self._given if queue not in wanted])
            for queue in sorted(wanted - self._given.keys()):
                self._member.instance.routes.keep(queue.topic)
                offset = await self.find_start(queue)
                if self._closed:
                    raise InvalidUse("the consumer was closed before its queues were assigned")
                self._given[queue] = ProcessQueue(offset)
                self.begin(queue, self._given[queue])

    async def _take_away(self, queues: Iterable[MessageQueue]) -> None:
        """Read these given queues no longer, and wait for the end of the batch at hand."""
        ended = {queue: self._given.pop(queue) for queue in queues}
        for process in ended.values():
            process.drop()
        await asyncio.gather(*(self.end(queue, process) for queue, process in ended.items()))

    def statistics(self) -> dict[MessageQueue, QueueStatistics]:
        """Return the state of each."""
        return {queue: process.statistics() for queue, process in self.all().items()}

    # --- from the first pull to the last offset ---

    async def may_take(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """All of them: they need no locks."""
        return set(queues)

    async def find_start(self, queue: MessageQueue) -> int:
        """Return where to begin a queue."""
        return await self._member.start.find(queue, self.offsets)

    def begin(self, queue: MessageQueue, process: ProcessQueue) -> None:
        """Fetch a queue until it is dropped; a given one as a stranger: it may be another's."""
        instance = self._member.instance
        brokers = instance.brokers if self.ownership is not None else instance.as_stranger
        puller = Puller(brokers, self._terms, queue, self._wanted(queue.topic))
        loop = PullLoop(process, puller, self)
        pulling = self._tasks.start(loop.run(), f"pull {queue}")
        if pulling is not None:
            self._pulling[queue] = pulling

    async def end(self, queue: MessageQueue, process: ProcessQueue) -> None:
        """Let the batch that the user works on end, then store the offset, with auto-commit."""
        self._stop_pulling(queue)
        self.fetched.discard(process)
        self.paused.discard(queue)
        await process.wait_idle(self._settings.handover_timeout_ms / 1000)
        process.release()
        offset = self.fetched.committable(process)
        self.fetched.forget_named(process)
        if self._settings.auto_commit:
            await self.offsets.commit_or_log(queue, offset)

    def restart(self, queue: MessageQueue, offset: int) -> None:
        """Read a queue from `offset` on, with nothing left of what was fetched before."""
        process = self.all().get(queue)
        if process is None:
            return  # lost meanwhile
        process.release()
        self._stop_pulling(queue)
        self.fetched.discard(process)
        self.fetched.forget_named(process)
        anew = ProcessQueue(offset)
        if self.ownership is not None:
            self.ownership.replace(queue, anew)
        else:
            self._given[queue] = anew
        self.begin(queue, anew)

    def pull_anew(self, topic: str) -> None:
        """Pull by the topic's changed subscription at once; what is fetched stays."""
        for queue, process in self.all().items():
            if queue.topic == topic:
                self._stop_pulling(queue)
                self.begin(queue, process)

    # --- offsets ---

    async def commit(self, offsets: Mapping[MessageQueue, int] | None) -> None:
        """Store these offsets, or all, and only then let go of lost queues that waited for it."""
        if offsets is None:
            self.fetched.count_handed()
            queues = {**self._lost(), **self.all()}
            await self._store(self._committable(queues))
            self.fetched.let_go()  # not of what was polled meanwhile
            return
        lost = self._lost()
        named = {queue: lost.get(queue) or self.of(queue) for queue in offsets}
        for queue, process in named.items():  # before auto-commit can come between
            self.fetched.name(process, offsets[queue])
        await self._store(offsets)
        for queue, process in named.items():
            self.fetched.done_before(process, offsets[queue])

    async def commit_all(self) -> None:
        """Store all offsets; failures are logged."""
        await self.offsets.commit_all(self._committable(self.all()))

    def _committable(self, queues: Mapping[MessageQueue, ProcessQueue]) -> dict[MessageQueue, int]:
        return {queue: self.fetched.committable(each) for queue, each in queues.items()}

    async def _store(self, offsets: Mapping[MessageQueue, int]) -> None:
        group, hooks = self._member.group, self._terms.hooks
        await asyncio.gather(
            *(
                hooks.settled("commit", group, queue, [], self.offsets.commit(queue, offset))
                for queue, offset in offsets.items()
            )
        )

    def _lost(self) -> dict[MessageQueue, ProcessQueue]:
        """The lost queues whose batch the user still works on."""
        if self.ownership is None:
            return {}
        ending = self.ownership.ending.items()
        return {queue: process for queue, process in ending if not process.released}

    # --- what the pull loops ask ---

    def deliver(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Let what a pull brought wait to be polled."""
        self.fetched.add(process, messages)

    def deliver_unreadable(self, process: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Pass over what cannot be read."""
        for message in messages:
            process.done(message)

    def hold_ms(self, queue: MessageQueue) -> int:
        """How long the next pull has to wait: for a resume, or until some messages are polled."""
        if queue in self.paused:
            return self._settings.pull.suspended_delay_ms
        fetched, settings = self.fetched, self._settings
        if (
            fetched.messages > settings.fetched_messages_max
            or fetched.bytes > settings.fetched_bytes_max
        ):
            return self._settings.pull.flow_control_delay_ms
        return 0

    async def correct(self, queue: MessageQueue, offset: int) -> None:
        """Go on where the broker says: what was fetched before stays if it comes before that."""
        process = self.all().get(queue)
        if process is None:
            return
        try:
            oldest = await self.offsets.oldest(queue)
        except AerobeeError:
            oldest = offset
        if self.all().get(queue) is not process:
            return  # lost, or sought, meanwhile
        if process.next_offset < oldest <= offset:  # what was not fetched yet has expired
            process.skip_to(offset)
            self.begin(queue, process)
        else:  # the group was reset, or the log is shorter than it was
            self.restart(queue, offset)

    def _stop_pulling(self, queue: MessageQueue) -> None:
        pulling = self._pulling.pop(queue, None)
        if pulling is not None and pulling is not asyncio.current_task():
            pulling.cancel()
