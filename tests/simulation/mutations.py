"""Faults that brokers and clients once had, put back one at a time: what clusters have to find."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

from aerobee.broker.features.dedup.firsts import TopicFirsts
from aerobee.broker.features.timers.reading import SlotReader
from aerobee.broker.features.timers.second import DueSecond
from aerobee.broker.features.transactions.halves import OpenHalves
from aerobee.client.cluster.decoding import decode_messages
from aerobee.client.instance.client_instance import ClientInstance
from aerobee.client.instance.rebalancing import RebalanceService
from aerobee.client.pulls.puller import Puller
from aerobee.remoting.net.client import ConnectionPool
from aerobee.storage.features.delays.progress import DelayProgress
from simulation.judge.ledger import Kind
from simulation.plan import Plan, Trouble


@dataclass(frozen=True, slots=True)
class Mutation:
    """A fault, a seed that shows it, plans that are likely to, by which word of which violation."""

    name: str
    put_back: Callable[[ExitStack], None]
    seed: int  # which found it before: the first to be tried, the likely ones after it
    likely: Callable[[Plan], bool]
    kinds: tuple[Kind, ...]
    word: str = ""

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let the product have the fault."""
        with ExitStack() as patches:
            self.put_back(patches)
            yield


def _deliveries_are_not_looked_for(patches: ExitStack) -> None:
    """What the log proves of delayed messages is not read: the note is older than the log."""
    patches.enter_context(
        patch.object(DelayProgress, "_take_delivered", lambda self, begin, end: None)
    )


def _closes_wait_for_rounds(patches: ExitStack) -> None:
    """A close that is cancelled while a round is under way leaves its member in the instance."""
    rounds: WeakKeyDictionary[RebalanceService, asyncio.Lock] = WeakKeyDictionary()
    rebalance = RebalanceService._rebalance

    async def one_at_a_time(self: RebalanceService) -> bool:
        async with rounds.setdefault(self, asyncio.Lock()):
            return await rebalance(self)

    async def give_up(self: RebalanceService, consumer: Any) -> None:
        async with rounds.setdefault(self, asyncio.Lock()):
            self._leaving.add(consumer.group)
        try:
            await consumer.ownership.release_all()
        finally:
            self._consumers.pop(consumer.group, None)
            self._leaving.discard(consumer.group)

    async def leave(self: ClientInstance, consumer: Any) -> None:
        await self.rebalancing.leave(consumer)
        await self.heartbeats.unregister(consumer_group=consumer.group)

    patches.enter_context(patch.object(RebalanceService, "_rebalance", one_at_a_time))
    patches.enter_context(patch.object(RebalanceService, "leave", give_up))
    patches.enter_context(patch.object(ClientInstance, "leave", leave))


def _who_waits_greets(patches: ExitStack) -> None:
    """A connection is announced by who waits for it: by nobody if that one has given up."""
    connect, announce = ConnectionPool.connect, ConnectionPool._announce
    announced: set[Any] = set()

    async def greeting(self: ConnectionPool, address: str) -> Any:
        known = self.get(address)
        if known is not None:
            return known
        connection = await connect(self, address)
        if connection not in announced:
            announced.add(connection)
            announce(self, address, connection)
        return connection

    patches.enter_context(patch.object(ConnectionPool, "connect", greeting))
    patches.enter_context(patch.object(ConnectionPool, "_announce", lambda *_: None))


def _one_bad_body_fails_the_pull(patches: ExitStack) -> None:
    """A message that cannot be unpacked fails each pull that brings it."""
    decode = Puller._decode

    def all_or_none(self: Any, reply: Any, *bounds: Any) -> Any:
        decode_messages(bytes(reply.body), self.queue)
        return decode(self, reply, *bounds)

    patches.enter_context(patch.object(Puller, "_decode", all_or_none))


def _times_are_kept_again(patches: ExitStack) -> None:
    """What the log proves of timed messages is not read: the note is older than the log."""
    patches.enter_context(
        patch(
            "aerobee.storage.features.timers.recovery.delivered_between",
            lambda *_, **__: (set(), 0),
        )
    )


def _recalls_are_not_read(patches: ExitStack) -> None:
    """What takes a message back counts only where it comes after its second was read."""
    take = SlotReader._take

    def without(self: SlotReader, second: DueSecond, unit: Any) -> None:
        take(self, second, unit)
        second.deletes.clear()

    patches.enter_context(patch.object(SlotReader, "_take", without))


def _transactions_end_twice(patches: ExitStack) -> None:
    """What has ended stays open, so that its check commits it once more."""
    patches.enter_context(patch.object(OpenHalves, "end_run", lambda self, ended, outcomes: None))


def _nobody_knows_keys(patches: ExitStack) -> None:
    """Topics that ask for it do not get it: a retry is stored again."""
    patches.enter_context(patch.object(TopicFirsts, "follow", lambda self, config: None))


MUTATIONS = (
    Mutation(
        "delayed messages are delivered again",
        _deliveries_are_not_looked_for,
        31,
        lambda plan: plan.delays and plan.disk and plan.gap_s >= 0.4,  # few messages are quick
        (Kind.TWICE,),
        "the delayed message",
    ),
    Mutation(
        "a cancelled close leaves a ghost",
        _closes_wait_for_rounds,
        1505,
        lambda plan: Trouble.CANCELS in plan.troubles and not plan.disk,  # those are quick
        (Kind.OWNERS, Kind.LOST),
    ),
    Mutation(
        "a connection whose maker gave up is not greeted",
        _who_waits_greets,
        113,
        lambda plan: Trouble.HURRY in plan.troubles and not plan.disk,
        (Kind.OWNERS, Kind.TWICE, Kind.WENT_BACK, Kind.ORDER),
    ),
    Mutation(
        "one message stops its queue",
        _one_bad_body_fails_the_pull,
        498,
        lambda plan: Trouble.POISON in plan.troubles,
        (Kind.LOST,),
    ),
    Mutation(
        "timed messages are delivered again",
        _times_are_kept_again,
        157,
        lambda plan: plan.times and Trouble.BROKERS_DIE in plan.troubles,
        (Kind.TWICE,),
        "timed",
    ),
    Mutation(
        "recalls are not read",
        _recalls_are_not_read,
        12,
        lambda plan: plan.times and not plan.disk,
        (Kind.HIDDEN,),
        "recalled",
    ),
    Mutation(
        "what has ended stays open",
        _transactions_end_twice,
        0,
        lambda plan: plan.transactions and not plan.disk,
        (Kind.TWICE,),
        "half",
    ),
    Mutation(
        "a retry is stored again",
        _nobody_knows_keys,
        245,
        lambda plan: plan.once and Trouble.LOST_REPLIES in plan.troubles and not plan.disk,
        (Kind.ONCE,),
    ),
)
