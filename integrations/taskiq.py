"""A taskiq broker: a task is a message, and is done when its worker says so."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from aerobee.client import (
    ClientSettings,
    ConsumeFrom,
    InvalidUse,
    Later,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from aerobee.remoting.extras import need

try:
    from taskiq import AckableMessage, AsyncBroker, BrokerMessage
except ModuleNotFoundError:
    need("taskiq", "aerobee.integrations.taskiq")
    raise

__all__ = ["AerobeeBroker"]

CONCURRENCY: Final = 100  # what `taskiq worker` runs at a time (--max-async-tasks)
SOON: Final = Later(delay_level=1)  # nobody works on it: a second later, at whoever is there
LOOK_S: Final = 0.005  # between two looks whether a consumer that closes has given up its queues

Settled = asyncio.Future[Later | None]


class AerobeeBroker(AsyncBroker):
    """Sends tasks to a topic, and shares them among the workers of a group.

        broker = AerobeeBroker("127.0.0.1:9876", topic="mails")

        @broker.task
        async def greet(name: str) -> None: ...

        await greet.kiq("Ann")
        await greet.kicker().with_labels(delay=90).kiq("Bob")  # s; or eta=when.isoformat()

    A task is acknowledged when taskiq says so: after it ran and its result was kept, or as the
    label `ack_type` has it, also where it raised: retries are the work of taskiq's middlewares. One
    whose worker dies comes again, at another worker: each runs at least once. So does one that is
    dropped without an acknowledgement, when Python frees it, and whatever is in its worker's hands
    for more than `PushSettings.consume_timeout_ms` (15 min): give long tasks more.

    `namesrv` is as for `Producer`; `settings` and `client` are those of the consumer, `producer`
    those of what is sent: a cluster that is away for longer than its `send_timeout_ms` (3 s) fails
    a `kiq` with SendTaskError. Results are kept by whatever result backend the broker is given.
    """

    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        topic: str = "taskiq",
        group: str | None = None,
        settings: PushSettings | None = None,
        client: ClientSettings | None = None,
        producer: ProducerSettings | None = None,
    ) -> None:
        """Describe the broker; nothing happens before `startup`.

        `group` is the topic's name where none is said: the workers of one group have one topic, for
        those of another topic would be given queues of it that they do not read.
        Of `settings`, `concurrency` (100) bounds the tasks that a worker process has not
        acknowledged, and `commit` is "each": after a crash nothing runs again but what ran, and
        what was done behind the oldest of it.
        """
        super().__init__()
        self._topic = topic
        self._group = topic if group is None else group
        self._namesrv = namesrv
        self._settings = settings or PushSettings(concurrency=CONCURRENCY, commit="each")
        self._client = client
        self._sending = producer
        self._producer = self._make_producer()
        self._consumer: PushConsumer | None = None
        self._waiting: asyncio.Queue[AckableMessage] = asyncio.Queue()

    def _make_producer(self) -> Producer:
        return Producer(
            self._group, namesrv=self._namesrv, settings=self._sending, client=self._client
        )

    async def startup(self) -> None:
        """Get ready to send, then call what waits for the startup.

        A worker's consumer starts with the first `listen`.
        """
        self._producer = self._make_producer()
        await self._producer.start()
        try:
            await super().startup()
        except BaseException:
            await self._producer.close()
            raise

    async def shutdown(self) -> None:
        """Call what waits for the shutdown, then let others have what is not acknowledged.

        Tasks that run have `PushSettings.handover_timeout_ms` (10 s) to be acknowledged.
        """
        async with contextlib.AsyncExitStack() as last:  # each of them, whatever the others raise
            last.push_async_callback(self._producer.close)
            last.push_async_callback(self._leave)
            await super().shutdown()

    async def kick(self, message: BrokerMessage) -> None:
        """Send a task; labels say when: `delay` in seconds, or `eta`, an ISO time with a zone.

        Raises InvalidUse for a label that is no time, and what `Producer.send` raises.
        """
        task = Message(self._topic, message.message, keys=message.task_id)
        await self._producer.send(task, **_when(message.labels))

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        """Yield tasks, up to `PushSettings.concurrency` before one is acknowledged."""
        if self._consumer is None:
            self._consumer = await self._join()
        while True:
            yield await self._waiting.get()

    async def _join(self) -> PushConsumer:
        consumer = PushConsumer(
            self._group,
            namesrv=self._namesrv,
            settings=self._settings,
            client=self._client,
            consume_from=ConsumeFrom.FIRST,  # also what was sent before there was any worker
        )
        consumer.subscribe(self._topic, self._handle)
        await consumer.start()
        return consumer

    async def _handle(self, message: ReceivedMessage) -> Later | None:
        """Let a worker have a task, and wait for its word."""
        settled: Settled = asyncio.get_running_loop().create_future()
        # nothing here keeps the acknowledgement: where all have dropped it, none will come
        self._waiting.put_nowait(AckableMessage(data=message.body, ack=_Acknowledgement(settled)))
        return await settled

    async def _leave(self) -> None:
        """Give up the queues, give back what no worker has taken, and wait for the rest."""
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        closing = asyncio.create_task(consumer.close())
        try:
            # until then each that is given back would make room for the next one
            while consumer.queues() and not closing.done():  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(LOOK_S)
            while not self._waiting.empty():
                self._waiting.get_nowait()
            gc.collect()  # what was dropped and is kept by a traceback would be waited for
        finally:
            await closing


class _Acknowledgement:
    """What a worker calls when a task is done; one that is dropped uncalled gives it back."""

    __slots__ = ("_loop", "_settled")

    def __init__(self, settled: Settled) -> None:
        self._settled = settled
        self._loop = settled.get_loop()

    async def __call__(self) -> None:
        """The task is done."""
        _settle(self._settled, None)

    def __del__(self) -> None:
        """Nobody can call it any more; this may be any thread, and after the loop's end."""
        if not self._settled.done():
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(_settle, self._settled, SOON)


def _settle(settled: Settled, answer: Later | None) -> None:
    if not settled.done():
        settled.set_result(answer)


def _when(labels: Mapping[str, Any]) -> dict[str, Any]:
    """Return the time that labels ask for, as `Producer.send` takes it.

    They come as text: taskiq has written them already.
    """
    delay, eta = labels.get("delay"), labels.get("eta")
    if delay is not None and eta is not None:
        raise InvalidUse(f"labels delay={delay!r} and eta={eta!r}: a task has one of them")
    try:
        if delay is not None:
            return {"delay": timedelta(seconds=float(delay))}
        if eta is not None:
            return {"deliver_at": datetime.fromisoformat(str(eta))}
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidUse(
            f"labels delay={delay!r}, eta={eta!r}: delay is a number of seconds, eta what"
            f" datetime.isoformat() writes, with a time zone ({error})"
        ) from None
    return {}
