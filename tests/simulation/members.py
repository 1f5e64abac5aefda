"""Members of consumer groups: our consumers, and handlers that take their time and fail."""

import asyncio
from abc import ABC, abstractmethod
from typing import Final

from aerobee.client import (
    ConsumeFrom,
    LitePullConsumer,
    MessageQueue,
    PushConsumer,
    ReceivedMessage,
)
from aerobee.storage.features.delays.progress import DELIVERED_PROPERTY
from simulation.clients import POISON, HostNode
from simulation.judge.attempts import Attempt, Outcome, Place
from simulation.judge.causes import LONG_S, Cause
from simulation.judge.ledger import Kind
from simulation.stage.world import HandlerFails

QUICK_S: Final = 0.05  # most handlers take at most so long
LONG_SHARE: Final = 0.005
TOO_LONG_S: Final = (11.0, 14.0)  # more than a hand-over waits for


class Member(ABC):
    """A host's part in its groups. `failing` and `too_long` are shares of its handlers' calls."""

    joined = False
    consumer: PushConsumer | LitePullConsumer

    def __init__(self, host: HostNode, *groups: str) -> None:
        self.host = host
        self.groups = groups
        self.dice = host.dice
        self.ledger = host.ledger
        self.failing = self.too_long = 0.0

    @abstractmethod
    async def join(self) -> None:
        """Start to consume; runs in the host's process."""

    @abstractmethod
    async def close(self) -> None:
        """Leave gracefully; runs in the host's process."""

    @abstractmethod
    def owned(self, group: str) -> list[Place]:
        """Return the queues that it owns in one of its groups."""

    def topics(self, group: str) -> tuple[str, ...]:
        """Return what a group subscribes to."""
        return self.ledger.groups[group].topics

    async def share_anew(self) -> None:
        """Begin a round of sharing queues, as if a broker had told that members changed."""
        self.consumer.members_changed()
        await asyncio.sleep(0)

    def disturbed(self, cause: Cause) -> None:
        """Tell the ledger of what befalls this member alone, whoever else is in its process."""
        for group in self.groups:
            self.ledger.disturb(f"{self.host.name} in {group}", cause)

    def attempt(self, group: str, message: ReceivedMessage) -> Attempt:
        """Note that a handler begins with a message."""
        if message.body.startswith(POISON):
            what = f"{self.host.name} was handed {message.body!r} of {message.queue}"
            self.ledger.broke(Kind.ERROR, what)
        at = place_of(message.queue)
        return self.ledger.begin(
            group,
            self.host.name,
            at,
            message.queue_offset,
            bytes(message.body),
            message.properties.get(DELIVERED_PROPERTY, ""),
        )

    def work_s(self) -> float:
        """Draw how long a handler takes."""
        dice = self.dice.random()
        if dice < self.too_long:
            seconds = self.dice.uniform(*TOO_LONG_S)
            self.ledger.disturb(self.host.name, Cause.HANDLER_TOO_LONG, seconds)
            return seconds
        if dice > 1 - LONG_SHARE:
            return self.dice.uniform(*LONG_S)
        return self.dice.uniform(0, QUICK_S)


class PushMember(Member):
    """A push consumer of one group."""

    consumer: PushConsumer
    ordered = False

    async def join(self) -> None:
        """Subscribe and start."""
        (group,) = self.groups
        self.consumer = PushConsumer(
            group,
            namesrv=self.host.namesrv,
            client=self.host.settings(),
            consume_from=ConsumeFrom.FIRST,
            ordered=self.ordered,
        )
        for topic in self.topics(group):
            self.consumer.subscribe(topic, self.handle)
        await self.consumer.start()

    async def close(self) -> None:
        """Close."""
        await self.consumer.close()

    def owned(self, group: str) -> list[Place]:
        """Return the queues that it owns."""
        return [place_of(queue) for queue in self.consumer.queues()] if self.joined else []

    async def handle(self, message: ReceivedMessage) -> None:
        """Handle a message: take some time, fail now and then."""
        attempt = self.attempt(self.groups[0], message)
        try:
            await asyncio.sleep(self.work_s())
        except asyncio.CancelledError:
            self.disturbed(Cause.HANDLER_CANCELLED)
            self.ledger.end(attempt, Outcome.GIVEN_UP)
            raise
        if self.dice.random() < self.failing:
            self.ledger.end(attempt, Outcome.FAILED)
            raise HandlerFails
        self.ledger.end(attempt, Outcome.DONE)


class OrderlyMember(PushMember):
    """A push consumer that handles each queue in order."""

    ordered = True


class LiteMember(Member):
    """A lite pull consumer of one group, and the program that polls it."""

    consumer: LitePullConsumer
    _polling: "asyncio.Task[None]"

    async def join(self) -> None:
        """Subscribe, start, poll."""
        (group,) = self.groups
        self._leaving = False
        self.consumer = LitePullConsumer(
            group,
            namesrv=self.host.namesrv,
            client=self.host.settings(),
            consume_from=ConsumeFrom.FIRST,
        )
        for topic in self.topics(group):
            self.consumer.subscribe(topic)
        await self.consumer.start()
        self._polling = asyncio.ensure_future(self._poll(group))

    async def close(self) -> None:
        """Finish the batch at hand, then close."""
        self._leaving = True
        try:
            await self._polling
        finally:
            await self.consumer.close()

    def owned(self, group: str) -> list[Place]:
        """Return the queues that it owns."""
        return [place_of(queue) for queue in self.consumer.assignment()] if self.joined else []

    async def _poll(self, group: str) -> None:
        while not self._leaving:
            batch = [self.attempt(group, message) for message in await self.consumer.poll(1000)]
            try:
                await asyncio.sleep(sum(self.work_s() for _ in batch) / 2)
            except asyncio.CancelledError:
                self.disturbed(Cause.HANDLER_CANCELLED)
                for attempt in batch:
                    self.ledger.end(attempt, Outcome.GIVEN_UP)
                raise
            for attempt in batch:
                self.ledger.end(attempt, Outcome.DONE)


def place_of(queue: MessageQueue) -> Place:
    """Return a client's queue as the ledger names it."""
    return Place(queue.topic, queue.broker_name, queue.queue_id)
