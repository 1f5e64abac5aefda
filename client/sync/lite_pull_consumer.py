"""A consumer that its program polls, or iterates over, from any thread."""

import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self

from aerobee.client.errors import InvalidUse, function, several
from aerobee.client.group.group_member import MessageModel
from aerobee.client.group.offsets import ConsumeFrom
from aerobee.client.group.ownership import QueuesChanged
from aerobee.client.group.strategies import Strategy
from aerobee.client.hooks import ConsumeHook, FilterHook
from aerobee.client.message import MessageQueue, check_queues
from aerobee.client.poll.lite_pull_consumer import LitePullConsumer as AsyncConsumer
from aerobee.client.poll.polling import POLLED
from aerobee.client.poll.takers import TAKER
from aerobee.client.pulls.process_queue import QueueStatistics
from aerobee.client.pulls.samples import StatisticSample
from aerobee.client.received import ReceivedMessage
from aerobee.client.settings import ClientSettings, LitePullSettings
from aerobee.client.sync.calls import Note
from aerobee.client.sync.handler_threads import DaemonThreads
from aerobee.client.sync.members import BlockingMember
from aerobee.client.sync.running import stopping

log = logging.getLogger(__name__)


class _Stopped(BaseException):
    """Leaves the work of `run` where it asks for more though the process is to end."""


class LitePullConsumer(BlockingMember[AsyncConsumer]):
    """Fetches ahead and hands out batches when asked.

        consumer = LitePullConsumer("reports", namesrv="127.0.0.1:9876")
        consumer.subscribe("orders", tags="paid")
        with consumer:
            for message in consumer:
                ...

    With `subscribe` the group shares the queues; with `assign` this consumer reads the queues it
    is given and is no member of the group. A polled batch counts as consumed when its thread calls
    `poll` again, when `commit` is called, or on a clean exit of the block; with `for` a message
    does when the next one is asked for. So what was not consumed in a crash comes again, and
    nothing is skipped: what Ctrl-C kept from its thread is handed out again, too. `poll` hands over
    a batch at a time and is the faster one.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | Sequence[str] | None = None,
        settings: LitePullSettings | None = None,
        client: ClientSettings | None = None,
        strategy: Strategy | None = None,
        consume_from: ConsumeFrom = ConsumeFrom.LAST,
        consume_timestamp_ms: int | None = None,
        model: MessageModel = MessageModel.CLUSTERING,
        hooks: Sequence[ConsumeHook | FilterHook] = (),
    ) -> None:
        """Describe the consumer; nothing happens before `start`.

        The arguments are those of PushConsumer. Raises InvalidMessage for a bad group name.
        """
        super().__init__(
            AsyncConsumer(
                group, namesrv=namesrv, settings=settings, client=client, strategy=strategy,
                consume_from=consume_from, consume_timestamp_ms=consume_timestamp_ms, model=model,
                hooks=hooks,
            )
        )  # fmt: skip
        self.settings = self._inner.settings
        self._stopped = False  # by a signal, while `run` serves
        self._asking = False  # the main thread waits for messages

    # --- what to read ---

    def subscribe(self, topic: str, *, tags: str = "*", sql: str | None = None) -> None:
        """Share the topic's queues with the group's other members.

        `tags` ("a || b") or an SQL92 expression select messages. While the consumer runs, the
        queues come a moment later, and another expression counts from the next pulls on. Raises
        InvalidUse when queues were assigned.
        """
        self._in_loop(lambda: self._inner.subscribe(topic, tags=tags, sql=sql))

    def unsubscribe(self, topic: str) -> None:
        """Read the topic no longer: what is fetched of it is not handed out any more.

        Its queues go to the other members. A topic that is not subscribed is no error.
        """
        self._in_loop(lambda: self._inner.unsubscribe(topic))

    def assign(
        self, queues: Iterable[MessageQueue], *, tags: str = "*", sql: str | None = None
    ) -> None:
        """Read exactly these queues, whoever else reads them; replaces what was assigned before.

        Each begins at the group's committed offset, else where `consume_from` says. `tags` or
        `sql` select messages of all their topics. Raises InvalidUse when a topic is subscribed;
        Unavailable and BrokerRefused if a starting offset cannot be found.
        """
        work = self._inner.assign(check_queues(queues), tags=tags, sql=sql)
        if self._thread is not None:
            self._run(work)
            return
        try:
            work.send(None)  # before the start it waits for nothing
        except StopIteration:
            return
        finally:
            work.close()

    # --- life ---

    def run(self, work: Callable[[Self], object]) -> None:
        """Start, do `work` until SIGINT or SIGTERM, close, and return.

            def work(consumer: LitePullConsumer) -> None:
                for message in consumer:
                    print(message.body)

            consumer.run(work)

        At the signal nothing more is handed out: `for` comes to its end, and a `poll` that is
        waiting, or asks for more, does not return: this does, with all that was polled before
        consumed. What `work` is at it finishes, however long that takes; a second signal ends the
        process at once. Where it returns by itself, the consumer is closed; what it raises, this
        raises, and what was handed out last comes again. Signals are heard in the main thread.
        """
        function("work", work)
        self._stopped = False
        with stopping() as stop, contextlib.ExitStack() as last:
            self.start()
            last.push(self.__exit__)
            stop.then = self._stop_reading
            if stop.name:
                return
            with contextlib.suppress(_Stopped):
                work(self)
            if stop.name:
                log.info("stopping, for there was %s", stop.name)

    def close(self) -> None:
        """Stop; with auto-commit, what was handed out counts as consumed and is committed.

        Not so where this is called on the way of an error: in the `finally` or `except` of a block
        that failed or was interrupted. What was handed out last comes again then, as after `with`.
        In the child of a fork nothing happens.
        """
        error = sys.exception()
        if error is None:
            super().close()
        else:
            self.__exit__(type(error), error, error.__traceback__)

    # --- reading ---

    def poll(self, timeout_ms: int | None = None) -> list[ReceivedMessage]:
        """Return the next batch, all of one queue; empty after `timeout_ms` (default 5,000).

        The batch before it now counts as consumed. Threads that poll side by side get different
        batches, and each counts its own, or those of threads that have ended. Messages of queues
        that were lost or sought meanwhile are never handed out. With `timeout_ms=0` it takes what
        is there. Raises InvalidUse before the start, and where nothing was subscribed or assigned.
        """
        return self._take(self._inner.poll(timeout_ms))

    def put_back(self, messages: Iterable[ReceivedMessage]) -> None:
        """Have polled messages handed out again, before all others: nobody has worked on them.

        For who got a batch and cannot see to it. What counts as consumed meanwhile, or is of a
        queue that was lost or sought, is left out. Raises InvalidUse before the start.
        """
        self._usable()
        self._in_loop(partial(self._inner.put_back, several("messages", POLLED, messages)))

    def __iter__(self) -> Self:
        """Iterate over the messages, one by one, until the consumer is closed."""
        return self

    def __next__(self) -> ReceivedMessage:
        """Return the next message; the one before it now counts as consumed.

        Raises InvalidUse before the start, and where nothing was subscribed or assigned.
        """
        if self._thread is None:
            if not self._inner._closed:
                self._usable()  # raises
            raise StopIteration
        try:
            taken = self._take(_next(self._inner))
        except _Stopped:
            raise StopIteration from None
        except InvalidUse:
            if self._thread is not None:
                raise
            taken = []  # closed meanwhile, by another thread
        if not taken:
            raise StopIteration
        return taken[0]

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on with `queue` at `offset`; what was fetched before is discarded.

        Raises InvalidUse if the queue is not assigned or the offset outside of what the broker
        has; Unavailable, BrokerRefused.
        """
        self._run(self._inner.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the oldest message that the broker has."""
        self._run(self._inner.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with the next message that arrives."""
        self._run(self._inner.seek_to_end(queue))

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Fetch nothing more of these queues until `resume`, or until they are lost."""
        wanted = check_queues(queues)
        self._usable()
        self._in_loop(partial(self._inner.pause, wanted))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Fetch these queues again, at the latest a second from now."""
        wanted = check_queues(queues)
        self._usable()
        self._in_loop(partial(self._inner.resume, wanted))

    # --- offsets ---

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store offsets in the brokers and wait for their answers.

        Without `offsets`: what was handed out, to whichever thread, counts as consumed, and every
        queue's offset is stored. With: these (each the offset of the next message to consume), for
        assigned queues; auto-commit leaves such an offset alone, be it ahead or behind, until a
        message at it or past it counts as consumed, or the queue is sought. Raises InvalidUse,
        Unavailable, BrokerRefused.
        """
        self._run(self._inner.commit(offsets))

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset as the broker has it; None if it has none."""
        return self._run(self._inner.committed(queue))

    def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset of the first message stored at `timestamp_ms` (since 1970) or later."""
        return self._run(self._inner.offset_for_timestamp(queue, timestamp_ms))

    # --- looking in ---

    def fetch_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of `topic` that can be read, as a nameserver knows them now.

        Raises RouteMissing, Unavailable.
        """
        return self._run(self._inner.fetch_queues(topic))

    def on_queues_changed(self, callback: QueuesChanged) -> None:
        """Have `callback(topic, all_queues, my_queues)` called when our share of a topic changed.

        Soon after it has, in a thread of its own, one call after the other.
        """
        self._on_queues_changed(callback)

    def on_topic_queues_changed(
        self, topic: str, callback: Callable[[str, list[MessageQueue]], None]
    ) -> None:
        """Have `callback(topic, queues)` called when the topic has other queues than before.

        It need not be subscribed; another callback for the topic replaces the first. It is called
        in a thread of its own. Routes are looked up every `ClientSettings.route_interval_ms`.
        """
        function("callback", callback)
        callbacks = self._callbacks

        def told(topic: str, queues: list[MessageQueue]) -> None:
            callbacks.post(lambda given: callback(topic, given), list(queues))

        self._in_loop(lambda: self._inner.on_topic_queues_changed(topic, told))

    def assignment(self) -> list[MessageQueue]:
        """Return the queues that are read at the moment, sorted."""
        return self._in_loop(self._inner.assignment)

    def statistics(self) -> dict[MessageQueue, QueueStatistics]:
        """Return the state of each queue that is read."""
        return self._in_loop(self._inner.statistics)

    def samples(self) -> list[StatisticSample]:
        """Return the statistics as numbers with names and labels, as `PushConsumer.samples` does.

            for sample in consumer.samples():
                print(sample.name, sample.labels, sample.value)

        Before the start, and after the close, nothing waits.
        """
        return self._in_loop(self._inner.samples)

    # --- within ---

    def _take(self, asking: Coroutine[Any, Any, list[ReceivedMessage]]) -> list[ReceivedMessage]:
        """Ask for messages in the name of this thread; what does not reach it is put back."""
        try:
            thread = self._usable()
        except BaseException:
            asking.close()
            raise
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and self._stopped:
            asking.close()
            fetched = self._inner._queues.fetched
            thread.call(_taken(_here.taker, _counted(fetched.asks_again))).wait()
            raise _Stopped
        call = thread.call(_taken(_here.taker, asking), unwanted=self._inner.put_back)
        try:
            self._asking = is_main
            return call.wait()
        except BaseException:
            call.give_up()
            raise
        finally:
            self._asking = False

    def _stop_reading(self) -> None:
        """Hand out nothing more; called by a signal's handler, in the main thread."""
        self._stopped = True
        if self._thread is not None:
            self._thread.post(Note(lambda: self._inner._queues.fetched.end()))
        if self._asking:
            raise _Stopped

    def _begin(self, timeout_ms: int | None) -> Coroutine[Any, Any, None]:
        return self._inner.start(timeout_ms)

    def _threads_of(self) -> list[DaemonThreads]:
        return [self._callbacks]


class _ThreadTaker(threading.local):
    """Stands for the calling thread among those who work on messages."""

    def __init__(self) -> None:
        self.taker = _Thread(threading.current_thread())


class _Thread:
    """A thread, asked as a task would be."""

    def __init__(self, thread: threading.Thread) -> None:
        self._thread = thread

    def done(self) -> bool:
        """Whether the thread has ended."""
        return not self._thread.is_alive()


_here = _ThreadTaker()


async def _taken(
    taker: _Thread, asking: Coroutine[Any, Any, list[ReceivedMessage]]
) -> list[ReceivedMessage]:
    TAKER.set(taker)  # in the context of this call alone
    return await asking


async def _counted(count: Callable[[], None]) -> list[ReceivedMessage]:
    count()
    return []


async def _next(inner: AsyncConsumer) -> list[ReceivedMessage]:
    try:
        return [await anext(inner)]
    except StopAsyncIteration:
        return []
