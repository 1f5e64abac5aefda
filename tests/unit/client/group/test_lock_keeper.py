"""Locks are trusted for less time than brokers keep them, and renewed before that is over."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from support.waiting import until

from aerobee.client.group.locks import GroupLocks, LockKeeper
from aerobee.client.message import MessageQueue
from aerobee.client.settings import PushSettings
from aerobee.remoting.errors import Unavailable

ONE, TWO = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-b", 0)


class Brokers(GroupLocks):
    """Grants what it is told to grant, and knows who asked when."""

    def __init__(self) -> None:
        self.now = 100.0
        self.granted: set[MessageQueue] = {ONE, TWO}
        self.asked: list[set[MessageQueue]] = []
        self.regained: list[MessageQueue] = []
        self.fails = 0

    async def lock(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Answer two seconds later, or fail."""
        if self.fails:
            self.fails -= 1
            raise RuntimeError("out of order")
        self.asked.append(set(queues))
        self.now += 2
        return self.asked[-1] & self.granted

    async def _note(self, queue: MessageQueue) -> None:
        self.regained.append(queue)

    def keeper(
        self,
        regained: Callable[[MessageQueue], Awaitable[None]] | None = None,
        settings: PushSettings | None = None,
    ) -> LockKeeper:
        """Return a keeper that asks here."""
        return LockKeeper(
            self, settings or PushSettings(), regained or self._note, lambda: self.now
        )


async def renew(keeper: LockKeeper) -> None:
    """Renew all locks, and let what is looked at beside that have its turn."""
    await keeper.renew()
    await asyncio.sleep(0)


async def begin(keeper: LockKeeper, *queues: MessageQueue) -> None:
    """Take and begin queues."""
    assert await keeper.take(queues) == set(queues)
    for queue in queues:
        keeper.begin(queue)


async def test_a_lock_is_trusted_for_thirty_seconds_from_the_question() -> None:
    """Not from the answer: the broker may have counted from before."""
    brokers = Brokers()
    keeper = brokers.keeper()
    brokers.granted = {ONE}
    assert await keeper.take([ONE, TWO]) == {ONE}
    assert not keeper.trusted(ONE)
    keeper.begin(ONE)
    assert keeper.trusted(ONE) and not keeper.trusted(TWO)
    assert (keeper.since(ONE), keeper.since(TWO)) == (100.0, None)
    brokers.now = 130.0
    assert keeper.trusted(ONE)
    brokers.now = 130.1
    assert not keeper.trusted(ONE)
    await renew(keeper)
    assert keeper.trusted(ONE) and keeper.since(ONE) == 130.1
    assert brokers.asked == [{ONE, TWO}, {ONE}]
    assert brokers.regained == [ONE], "for a moment somebody else could have had it"


async def test_a_refused_lock_is_looked_at_when_it_comes_back() -> None:
    """It is asked for again and again, together with the others."""
    brokers = Brokers()
    keeper = brokers.keeper()
    await begin(keeper, ONE, TWO)
    brokers.granted = {TWO}
    await renew(keeper)
    assert not keeper.trusted(ONE) and keeper.trusted(TWO)
    brokers.granted = {ONE, TWO}
    await renew(keeper)
    assert brokers.asked[-1] == {ONE, TWO}
    assert brokers.regained == [ONE]
    assert keeper.trusted(ONE) and keeper.trusted(TWO)


async def test_a_lock_that_the_broker_has_forgotten_is_looked_at_too() -> None:
    """Half a minute after its renewal, without a connection, anybody may have had it in between."""
    brokers = Brokers()
    keeper = brokers.keeper()
    await begin(keeper, ONE)
    brokers.now = 130.0
    await renew(keeper)
    assert not brokers.regained
    brokers.now = 166.0
    await renew(keeper)
    assert brokers.regained == [ONE]
    assert keeper.trusted(ONE)


async def test_what_is_given_up_is_asked_for_no_more() -> None:
    """Also when that happens while the brokers are asked, or while it is looked at."""

    async def give_up(queue: MessageQueue) -> None:
        keeper.forget(queue)

    brokers = Brokers()
    keeper = brokers.keeper(give_up)
    await begin(keeper, ONE, TWO)
    keeper.forget(TWO)
    await renew(keeper)
    assert brokers.asked[-1] == {ONE}
    brokers.granted = set()
    await renew(keeper)
    brokers.granted = {ONE}
    await renew(keeper)
    assert not keeper.trusted(ONE)
    before = len(brokers.asked)
    await renew(keeper)
    assert len(brokers.asked) == before


async def test_what_ends_keeps_its_lock_but_gets_none_back() -> None:
    """It is renewed while its handlers end; once it is lost somebody else may have gone on."""
    brokers = Brokers()
    keeper = brokers.keeper()
    await begin(keeper, ONE, TWO)
    keeper.end(ONE)
    await renew(keeper)
    assert brokers.asked[-1] == {ONE, TWO} and keeper.trusted(ONE)
    brokers.granted = {TWO}
    await renew(keeper)
    brokers.granted = {ONE, TWO}
    await renew(keeper)
    assert brokers.asked[-1] == {TWO}
    assert not keeper.trusted(ONE) and not brokers.regained
    keeper.forget(ONE)
    await begin(keeper, ONE)  # taken anew it is like any other
    brokers.granted = {TWO}
    await renew(keeper)
    brokers.granted = {ONE, TWO}
    await renew(keeper)
    assert keeper.trusted(ONE) and brokers.regained == [ONE]


async def test_what_ends_without_its_lock_is_not_asked_for() -> None:
    """Also when that begins while somebody looks how far the queue got."""

    async def end(queue: MessageQueue) -> None:
        keeper.end(queue)

    brokers = Brokers()
    keeper = brokers.keeper(end)
    await begin(keeper, ONE, TWO)
    brokers.granted = set()
    await renew(keeper)
    keeper.end(TWO)
    brokers.granted = {ONE, TWO}
    await renew(keeper)
    assert brokers.asked[-1] == {ONE}
    assert not keeper.trusted(ONE) and not keeper.trusted(TWO)


async def test_what_was_locked_and_not_begun_is_not_renewed() -> None:
    """The round after may have given it to another member."""
    brokers = Brokers()
    keeper = brokers.keeper()
    await keeper.take([ONE, TWO])
    keeper.begin(TWO)
    await renew(keeper)
    assert brokers.asked == [{ONE, TWO}, {TWO}]
    assert not keeper.trusted(ONE)


async def test_one_queue_that_cannot_be_used_yet_leaves_the_others_alone() -> None:
    """Its offset cannot be had: it is asked for again, and the next one comes back at once."""
    brokers = Brokers()
    failing = {ONE}

    async def regained(queue: MessageQueue) -> None:
        if queue in failing:
            raise Unavailable("nobody answers")

    keeper = brokers.keeper(regained)
    await begin(keeper, ONE, TWO)
    brokers.granted = set()
    await renew(keeper)
    brokers.granted = {ONE, TWO}
    await renew(keeper)
    assert (keeper.trusted(ONE), keeper.trusted(TWO)) == (False, True)
    failing.clear()
    await renew(keeper)
    assert keeper.trusted(ONE)


async def test_locks_are_renewed_for_ever() -> None:
    """In spite of errors; sooner while one is refused."""
    brokers = Brokers()
    keeper = brokers.keeper(settings=PushSettings(lock_interval_ms=60_000, lock_retry_ms=1))
    await begin(keeper, ONE)
    brokers.granted = set()
    await renew(keeper)
    running = asyncio.ensure_future(keeper.run())
    await until(lambda: len(brokers.asked) > 2)
    brokers.fails = 3
    await until(lambda: len(brokers.asked) > 4 and not brokers.fails)
    brokers.granted = {ONE}
    await until(lambda: keeper.trusted(ONE))
    running.cancel()


async def test_renewing_goes_on_while_queues_are_looked_after() -> None:
    """However long that takes, and however many: the other locks are renewed in time."""
    brokers = Brokers()
    go = asyncio.Event()
    looked: list[MessageQueue] = []

    async def regained(queue: MessageQueue) -> None:
        looked.append(queue)
        await go.wait()

    others = [MessageQueue("u", "broker-a", number) for number in range(4)]
    brokers.granted |= set(others)
    keeper = brokers.keeper(regained)
    await begin(keeper, ONE, TWO, *others)
    brokers.granted -= {ONE, TWO}
    await renew(keeper)
    brokers.granted |= {ONE, TWO}
    for _ in range(20):  # of six seconds each
        brokers.now += 4
        async with asyncio.timeout(5):
            await renew(keeper)
        assert all(keeper.trusted(queue) for queue in others)
    assert looked == [ONE, TWO], "each is looked at once, both at the same time"
    assert not keeper.trusted(ONE)
    go.set()
    await until(lambda: keeper.trusted(ONE) and keeper.trusted(TWO))


async def test_a_lock_that_is_lost_again_while_it_is_looked_at_is_not_used() -> None:
    """What was found no longer holds: it is looked at once more when it comes back."""
    brokers = Brokers()
    go = asyncio.Event()
    looked: list[MessageQueue] = []

    async def regained(queue: MessageQueue) -> None:
        looked.append(queue)
        if len(looked) == 1:
            await go.wait()

    keeper = brokers.keeper(regained)
    await begin(keeper, ONE)
    for granted in (set(), {ONE}, set()):
        brokers.granted = granted
        await renew(keeper)
    go.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not keeper.trusted(ONE)
    brokers.granted = {ONE}
    await renew(keeper)
    assert looked == [ONE, ONE]
    assert keeper.trusted(ONE)
