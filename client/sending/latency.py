"""Which brokers are avoided for a while, by how long they took and whether they answered."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Final

from aerobee.client.cluster.brokers import Brokers
from aerobee.client.errors import BrokerRefused
from aerobee.client.message import MessageQueue
from aerobee.client.sending.selectors import RoundRobin
from aerobee.client.settings import LatencySettings
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.errors import AerobeeError, Unavailable
from aerobee.remoting.headers.offsets import MaxOffsetRequest
from aerobee.remoting.net.tasks import Tasks

log = logging.getLogger(__name__)

FAILURE_MS: Final = 10_000  # that a failed send counts as (MQFaultStrategy.updateFaultItem)
ROUND_MS: Final = 3_000  # between two rounds of the detector
BROKERS_MAX: Final = 10_000  # that are remembered


class _Health:
    """What is known of one broker: until when it is avoided, and whether it answers."""

    __slots__ = ("asked_s", "avoided_until_s", "reachable")

    def __init__(self) -> None:
        self.avoided_until_s = 0.0
        self.reachable = True
        self.asked_s = 0.0


class LatencyTolerance:
    """Remembers how brokers served the sends of one producer (LatencyFaultToleranceImpl.java).

    `clock` tells seconds of any origin. A broker is taken for available again when its time is
    over, whether it has become better or not: the next send finds out.
    """

    def __init__(self, settings: LatencySettings, clock: Callable[[], float] = monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._brokers: dict[str, _Health] = {}
        self._tasks = Tasks()

    def succeeded(self, broker: str, took_s: float) -> None:
        """Note a send that was answered with success after so long."""
        self._note(broker, took_s * 1000, reachable=True)

    def failed(self, broker: str, error: Exception) -> None:
        """Note a send that failed: where no answer came, or a refusal.

        Without the detector nothing but a success could make a silent broker reachable again: so it
        counts as reachable, as in DefaultMQProducerImpl.sendDefaultImpl; a refusal never does.
        """
        if isinstance(error, Unavailable):
            self._note(broker, FAILURE_MS, reachable=not self._settings.detector)
        elif isinstance(error, BrokerRefused):
            self._note(broker, FAILURE_MS, reachable=False)

    def start(self, brokers: Brokers, topics: Callable[[], Iterable[str]]) -> None:
        """Ask brokers that are not reachable from now on, if the settings want it.

        `topics` names those that are sent to: a broker is asked where a queue of one ends.
        """
        if self._settings.detector:
            self._tasks = Tasks()  # those of an earlier life have ended for good
            self._tasks.every(ROUND_MS, lambda: self._detect(brokers, topics()), "broker detector")

    async def close(self) -> None:
        """Stop asking."""
        await self._tasks.close()

    def is_available(self, broker: str) -> bool:
        """Whether the broker is not avoided at the moment."""
        health = self._brokers.get(broker)
        return health is None or self._clock() >= health.avoided_until_s

    def is_reachable(self, broker: str) -> bool:
        """Whether the broker has not refused, or been silent, since it last served."""
        health = self._brokers.get(broker)
        return health is None or health.reachable

    def _note(self, broker: str, took_ms: float, *, reachable: bool) -> None:
        avoid_ms = self._avoid_ms(took_ms)
        health = self._brokers.get(broker)
        if health is None:
            if reachable and not avoid_ms:
                return  # as most are
            if len(self._brokers) >= BROKERS_MAX:
                self._brokers.clear()  # of names that come and go, most are not used again
            health = self._brokers[broker] = _Health()
        if avoid_ms:
            until_s = self._clock() + avoid_ms / 1000
            health.avoided_until_s = max(health.avoided_until_s, until_s)
        if health.reachable and not reachable:
            log.info("broker avoided broker=%s took_ms=%d avoid_ms=%d", broker, took_ms, avoid_ms)
        health.reachable = reachable

    def _avoid_ms(self, took_ms: float) -> int:
        settings = self._settings
        slow = zip(reversed(settings.slow_ms), reversed(settings.avoid_ms), strict=True)
        return next((avoid_ms for slow_ms, avoid_ms in slow if took_ms >= slow_ms), 0)

    async def _detect(self, brokers: Brokers, topics: Iterable[str]) -> None:
        now_s = self._clock()
        due_s = now_s - self._settings.detect_interval_ms / 1000
        topic_of = {
            queue.broker_name: topic
            for topic in topics
            if (route := brokers.routes.known(topic)) is not None
            for queue in route.write_queues
        }
        asked = []
        for name, health in list(self._brokers.items()):
            address = brokers.routes.address(name)
            if address is None:
                del self._brokers[name]  # no route names it any more
            elif not health.reachable and health.asked_s <= due_s and name in topic_of:
                health.asked_s = now_s
                asked.append(self._ask(brokers, name, address, topic_of[name]))
        await asyncio.gather(*asked)

    async def _ask(self, brokers: Brokers, name: str, address: str, topic: str) -> None:
        header = MaxOffsetRequest(topic=topic, queue_id=0)
        timeout_ms = self._settings.detect_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await brokers.connections.request(
                    address, RequestCode.GET_MAX_OFFSET, header, timeout_ms=timeout_ms
                )
        except (AerobeeError, TimeoutError) as error:
            log.debug("broker still not reachable broker=%s error=%s", name, error)
            return
        health = self._brokers.get(name)
        if health is not None and not health.reachable:
            health.reachable = True
            log.info("broker reachable again broker=%s", name)


class TolerantTurns(RoundRobin):
    """Takes queues in turn, those of brokers that serve well first (MQFaultStrategy.java)."""

    __slots__ = ("_tolerance",)

    def __init__(self, tolerance: LatencyTolerance, start: int | None = None) -> None:
        super().__init__(start)
        self._tolerance = tolerance

    def pick(self, queues: Sequence[MessageQueue], avoid_broker: str | None = None) -> MessageQueue:
        """Return the next queue of a broker that is available, else reachable, else any.

        The avoided one, which was tried last, is taken only where there is no other of its kind.
        """
        for is_good in (self._tolerance.is_available, self._tolerance.is_reachable):

            def wanted(queue: MessageQueue, is_good: Callable[[str], bool] = is_good) -> bool:
                return queue.broker_name != avoid_broker and is_good(queue.broker_name)

            if (found := self.pick_if(queues, wanted)) is not None:
                return found
        return super().pick(queues)
