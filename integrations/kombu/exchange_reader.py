"""Exchanges as topics that everybody reads: control commands, their replies, events."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from aerobee.client.errors import ClientError, RouteMissing
from aerobee.client.message import MessageQueue
from aerobee.client.pulls.raw import PullStatus
from aerobee.client.sync import PullConsumer
from aerobee.integrations.kombu import payload
from aerobee.integrations.kombu.link import Link

log = logging.getLogger(__name__)

READERS: Final = "kombu_readers"
"""The group of all readers; it has no members, and nothing is committed for it."""
FAILED_S: Final = 0.5
"""How long a pull that failed waits for the next one."""
LOOK_S: Final = 30.0
"""How often brokers are looked for that have the topic, too."""

Deliver = Callable[[str, payload.Heard], None]
"""Called with the exchange's name and each message, in the loop's thread."""


class ExchangeReader(PullConsumer):
    """Reads the topics of exchanges, each from the moment on when it is followed."""

    def __init__(self, link: Link, deliver: Deliver) -> None:
        """Describe it; nothing happens before `start`."""
        super().__init__(READERS, namesrv=link.namesrv, client=link.client)
        self._deliver = deliver
        self._followed: set[str] = set()
        self._tasks: dict[MessageQueue, asyncio.Task[None]] = {}
        self._looking: list[asyncio.Task[None]] = []

    def follow(self, exchange: str, topic: str) -> None:
        """Deliver what is published to an exchange from now on; once it is, again changes nothing.

        Raises Unavailable and BrokerRefused where nobody says where the topic ends.
        """
        if exchange not in self._followed:
            self._run(self._begin(exchange, topic))
            self._followed.add(exchange)

    def close(self) -> None:
        """Read no longer."""
        self._close(self._leave)

    async def _leave(self) -> None:
        tasks = [*self._looking, *self._tasks.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._inner.close()

    async def _begin(self, exchange: str, topic: str) -> None:
        for queue in await self._inner.fetch_queues(topic):
            offset = await self._inner.newest_offset(queue)
            self._read(exchange, queue, offset)
        loop = asyncio.get_running_loop()
        self._looking.append(loop.create_task(self._look(exchange, topic)))

    def _read(self, exchange: str, queue: MessageQueue, offset: int) -> None:
        if queue not in self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks[queue] = loop.create_task(self._read_on(exchange, queue, offset))

    async def _look(self, exchange: str, topic: str) -> None:
        """Read also what brokers have that came later; all of it, for it is as young as they."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                for queue in await self._inner.fetch_queues(topic):
                    self._read(exchange, queue, 0)
            except (ClientError, RouteMissing) as error:
                log.debug("cannot look for queues topic=%s error=%s", topic, error)

    async def _read_on(self, exchange: str, queue: MessageQueue, offset: int) -> None:
        failing = False
        while True:
            try:
                result = await self._inner.pull_when_available(queue, offset)
            except ClientError as error:
                if not failing:
                    log.warning("cannot read exchange=%s queue=%s: %s", exchange, queue, error)
                failing = True
                await asyncio.sleep(FAILED_S)
                continue
            if failing:
                log.info("reading again exchange=%s queue=%s", exchange, queue)
                failing = False
            if result.status is PullStatus.OFFSET_ILLEGAL:  # the topic was made anew, say
                log.warning("exchange=%s goes on at offset %d", exchange, result.next_offset)
            offset = result.next_offset
            for message in result.messages:
                try:
                    self._deliver(exchange, (message, payload.unpacked(message)))
                except (AttributeError, LookupError, TypeError, ValueError) as error:
                    log.error("left out: %r error=%r", message, error)
