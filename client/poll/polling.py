"""What a program does with the queues that it reads: poll, iterate, pause, commit."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Self

from aerobee.client.errors import OFFSET_MAX, InvalidUse, several, whole_number
from aerobee.client.group.group_member import GroupMember
from aerobee.client.group.offsets import GroupOffsets
from aerobee.client.hooks import Hooks
from aerobee.client.message import MessageQueue, check_offsets, check_queue, check_queues
from aerobee.client.poll.queues import LiteQueues
from aerobee.client.received import ReceivedMessage
from aerobee.client.settings import LitePullSettings

POLLED: Final = "a sequence of polled messages"


class PollingMember(GroupMember):
    """A consumer that is asked for its messages; which queues it reads is said elsewhere."""

    settings: LitePullSettings
    _queues: LiteQueues  # from the start on
    _hooks: Hooks
    _reads = False  # it was told what to read, be that nothing

    # --- reading ---

    async def poll(self, timeout_ms: int | None = None) -> list[ReceivedMessage]:
        """Return the next batch, all of one queue; empty after `timeout_ms` (default 5,000).

            for message in await consumer.poll(timeout_ms=1_000):
                print(message.body)

        The batch before it now counts as consumed. Tasks that poll side by side get different
        batches, and each counts its own, or those of tasks that have ended. Messages of queues that
        were lost or sought meanwhile are never handed out. With `timeout_ms=0` it takes what is
        there. Raises InvalidUse before the start, and where nothing was subscribed or assigned.
        """
        if timeout_ms is None:
            timeout_ms = self.settings.poll_timeout_ms
        else:
            whole_number("timeout_ms", timeout_ms, 0)
        self._started()
        if not self._reads:
            raise InvalidUse(self._nothing_to_read())
        self._queues.fetched.asks_again()
        batch = await self._queues.fetched.take_batch(timeout_ms / 1000)
        if batch:
            self._hooks.handed_out(self.group, batch[0].queue, batch)
        return batch

    def put_back(self, messages: Iterable[ReceivedMessage]) -> None:
        """Have polled messages handed out again, before all others: nobody has worked on them.

        For who got a batch and cannot see to it. What counts as consumed meanwhile, or is of a
        queue that was lost or sought, is left out. Raises InvalidUse before the start.
        """
        back = several("messages", POLLED, messages)
        self._started()
        self._queues.fetched.put_back(back)

    if not TYPE_CHECKING:  # checkers find it by themselves

        def __iter__(self) -> None:
            """Say what to write instead: the mistake of who comes from blocking clients."""
            raise TypeError(
                f"a {type(self).__name__} of aerobee.client is read by `async for`; the one of"
                " aerobee.client.sync by `for`"
            )

    def __aiter__(self) -> Self:
        """Iterate over the messages, one by one, until the consumer is closed."""
        return self

    async def __anext__(self) -> ReceivedMessage:
        """Return the next message; the one before it now counts as consumed.

        Raises InvalidUse before the start, and where nothing was subscribed or assigned.
        """
        if self._instance is None or self._leaving:
            if not (self._leaving or self._closed):
                self._started()  # raises
            raise StopAsyncIteration
        if not self._reads:
            raise InvalidUse(self._nothing_to_read())
        fetched = self._queues.fetched
        message = fetched.next_of_run()
        if message is None:
            fetched.asks_again()
            message = await fetched.take_one()
            if message is None:
                raise StopAsyncIteration
        if self._hooks.consume:
            self._hooks.handed_out(self.group, message.queue, [message])
        return message

    def _nothing_to_read(self) -> str:
        return (
            f"group {self.group!r} has nothing to read: call consumer.subscribe('orders') before"
            " the start, or await consumer.assign(queues) after it"
        )

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Fetch nothing more of these queues until `resume`, or until they are lost."""
        self._started()
        self._queues.paused.update(check_queues(queues))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Fetch these queues again, at the latest a second from now."""
        self._started()
        self._queues.paused.difference_update(check_queues(queues))

    # --- offsets ---

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store offsets in the brokers and wait for their answers.

        Without `offsets`: what was handed out counts as consumed, and every queue's offset is
        stored. With: these (each the offset of the next message to consume), for assigned queues;
        auto-commit leaves such an offset alone, be it ahead or behind, until a message at it or
        past it counts as consumed, or the queue is sought. Raises InvalidUse, Unavailable,
        BrokerRefused.
        """
        self._started()
        await self._queues.commit(None if offsets is None else check_offsets(offsets))

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset as the broker has it; None if it has none."""
        check_queue(queue)
        instance = self._started()
        if self.ownership is None or self._broadcasts or queue in self.ownership.queues:
            return await self._queues.offsets.committed(queue)
        timeout_ms = self._client.offset_timeout_ms
        return await GroupOffsets(instance.as_stranger, self.group, timeout_ms).committed(queue)

    async def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset of the first message stored at `timestamp_ms` (since 1970) or later."""
        check_queue(queue)
        timestamp_ms = whole_number("timestamp_ms", timestamp_ms, 0, OFFSET_MAX)
        self._started()
        return await self._queues.offsets.at_time(queue, timestamp_ms)
