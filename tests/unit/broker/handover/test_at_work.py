"""Hand-overs tell handlers that take long from quick ones with much to do, in virtual time."""

from collections.abc import Callable

import pytest
from support.fake_connection import FakeConnection
from support.quiet_surroundings import QuietSurroundings
from support.virtual_time import VirtualTime

from aerobee.broker.handover.at_work.history import LOST_MS, History, Seen
from aerobee.broker.handover.at_work.looking import ASK_MS, ASKS_MAX, LOOK_MS, LOOKS_MAX
from aerobee.broker.handover.draining import MISSES_MAX, QUICK_MS, QUICK_TIMES
from aerobee.broker.handover.handed_out import Holdings
from aerobee.broker.handover.handovers import Handovers
from aerobee.broker.handover.held_questions import HELD_MS
from aerobee.broker.handover.owned_queue import OwnedQueue, Verdict
from aerobee.broker.handover.owners import QueueOwners
from aerobee.broker.members.group import Client
from aerobee.broker.members.queue_key import QueueKey
from aerobee.broker.members.registry import Members
from aerobee.remoting.bodies import (
    ConsumerData,
    ConsumerRunningInfo,
    MessageQueue,
    ProcessQueueInfo,
    SubscriptionData,
)
from aerobee.remoting.command import Language
from aerobee.remoting.net.connection import Connection

LIMIT_MS = 6_000
TOLD_WITHIN_MS = 200
KEY = QueueKey("g", "t", 0)
OTHER = QueueKey("g", "t", 1)


class Working(QuietSurroundings):
    """What a Java consumer has fetched and done; its pulls come back as soon as they end."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.fetched_before: dict[QueueKey, int] = {}
        self.done_before: dict[QueueKey, int] = {}
        self.threads: int | None = 20  # None: it does not answer
        self.asked = 0
        self.heard: set[Connection] = set()  # who was asked

    def committed(self, key: QueueKey) -> int | None:
        """Return how far it is."""
        return self.done_before.get(key)

    def fetched(self, key: QueueKey) -> int | None:
        """Return how far it has read."""
        return self.fetched_before.get(key)

    def end_pulls(self, connection: Connection, key: QueueKey) -> None:
        """Its next pull comes a millisecond later."""
        self._world.time.later(0.001, lambda: self._world.pull(connection, key))

    def ask_holdings(
        self, connection: Connection, group: str, answered: Callable[[Holdings | None], None]
    ) -> None:
        """Say what it holds."""
        self.asked += 1
        self.heard.add(connection)
        if self.threads is None:
            answered(None)
            return
        held = sum(self.fetched_before[key] - self.done_before[key] for key in self.fetched_before)
        answered(Holdings(False, 0, {}, held=held, threads=self.threads))


class World:
    """A group of one member that owns a queue; others come, and own none."""

    def __init__(self, *, language: int = Language.JAVA, wanted: str = "*") -> None:
        self.time = VirtualTime()
        self.language, self.wanted = language, wanted
        self.limit_ms = LIMIT_MS
        self.told_ms: list[int] = []
        self.count = 0
        self.around = Working(self)
        self.members = Members(
            lambda group, told: self.handovers.notify(group, told), self.time.clock_ms
        )
        self.handovers = Handovers(
            self.members,
            self.around,
            clock_ms=self.time.clock_ms,
            later=self.time.later,
            wait_ms=lambda: 2_000,
            queues_max=10_000,
            drain_ms=lambda: self.limit_ms,
            notify=lambda group, told: self.told_ms.append(self.time.now_ms),
        )
        self.members.watchers.append(self.handovers)
        self.first = self.join()
        self.take(KEY)

    def join(self) -> FakeConnection:
        """Let one more member join."""
        self.count += 1
        connection = FakeConnection(f"10.0.0.1:{self.count}")
        wish = SubscriptionData(topic="t", sub_string=self.wanted, sub_version=1)
        data = ConsumerData(group_name="g", subscription_data_set=[wish])
        client = Client(connection, f"c{self.count}", self.language, 513)
        self.members.register_consumer(client, data, notified=True)
        return connection

    def take(self, key: QueueKey) -> None:
        """The first member begins with a queue, of which it has consumed one message."""
        assert self.handovers.ask(self.first, key, lambda verdict: None) is Verdict.OFFSET
        self.around.fetched_before[key] = self.around.done_before[key] = 1
        self.pull(self.first, key)
        self.time.advance(3 * LOOK_MS)

    def pull(self, connection: Connection, key: QueueKey) -> bool:
        """Pull at what was fetched, and commit what is done."""
        fetched, done = self.around.fetched_before[key], self.around.done_before[key]
        return self.handovers.begin_pull(connection, key, fetched, finished=done >= fetched)

    def work_off(self, per_second: int) -> None:
        """Finish so many messages a second from now on, as long as there are some."""
        around = self.around

        def step() -> None:
            done = around.done_before[KEY] + max(1, per_second // 100)
            around.done_before[KEY] = min(done, around.fetched_before[KEY])
            self.work_off(per_second)

        self.time.later(0.01 if per_second >= 100 else 1 / per_second, step)

    def told_after(self) -> int:
        """Let somebody join, and return how long it takes until the members hear of it, in ms."""
        joined_ms, told = self.time.now_ms, len(self.told_ms)
        self.join()
        self.time.advance((QUICK_TIMES + 1) * LIMIT_MS)
        assert len(self.told_ms) == told + 1
        return self.told_ms[-1] - joined_ms


def test_handlers_that_take_long_are_known_at_a_groups_first_change() -> None:
    """Nobody waits for what was at work for seconds already: the pause is as short as any."""
    world = World()
    world.around.fetched_before[KEY] = 10
    world.time.advance(LIMIT_MS)
    assert QUICK_MS <= world.told_after() <= QUICK_MS + TOLD_WITHIN_MS


@pytest.mark.parametrize(
    ("language", "threads"), [(Language.JAVA, 5), (Language.GO, 20), (Language.JAVA, 0)]
)
def test_messages_that_may_wait_for_a_thread_are_waited_for(language: int, threads: int) -> None:
    """That a message is old says nothing of its handler where there are fewer threads than work."""
    world = World(language=language)
    world.around.threads = threads
    world.around.fetched_before[KEY] = 10
    world.time.advance(LIMIT_MS)
    assert LIMIT_MS <= world.told_after() <= LIMIT_MS + TOLD_WITHIN_MS


def test_what_was_fetched_later_and_is_finished_shows_what_has_begun() -> None:
    """Java's threads take messages in the order in which they were fetched, of all queues."""
    world = World()
    world.around.threads = 0  # it does not say
    world.take(OTHER)
    world.around.fetched_before[KEY] = 10
    world.time.advance(1_000)
    world.around.fetched_before[OTHER] = world.around.done_before[OTHER] = 5
    world.time.advance(LIMIT_MS)
    assert QUICK_MS <= world.told_after() <= QUICK_MS + TOLD_WITHIN_MS


def test_what_is_filtered_out_shows_nothing() -> None:
    """It needs no thread: that it was passed over does not say that others have begun."""
    world = World(wanted="a || b")
    world.around.threads = 0
    world.take(OTHER)
    world.around.fetched_before[KEY] = 10
    world.time.advance(1_000)
    world.around.fetched_before[OTHER] = world.around.done_before[OTHER] = 5
    world.time.advance(LIMIT_MS)
    assert LIMIT_MS <= world.told_after() <= LIMIT_MS + TOLD_WITHIN_MS


def test_quick_handlers_may_finish_a_backlog() -> None:
    """It takes longer than the limit, but ends soon enough: nothing is under way at the notice."""
    world = World()
    world.around.fetched_before[KEY] = 2_000
    world.work_off(per_second=200)
    told_after_ms = world.told_after()
    assert LIMIT_MS < told_after_ms <= QUICK_TIMES * LIMIT_MS
    assert world.around.done_before[KEY] == 2_000


def test_a_backlog_that_takes_too_long_is_not_waited_for_and_no_sign_of_slow_handlers() -> None:
    """Waiting for a part of it would change nothing; the next changes are treated the same."""
    world = World()
    world.around.fetched_before[KEY] = 1_000_000
    world.work_off(per_second=200)
    for _ in range(MISSES_MAX + 1):
        assert LIMIT_MS <= world.told_after() <= LIMIT_MS + TOLD_WITHIN_MS
        world.time.advance(QUICK_TIMES * LIMIT_MS)


def test_a_queue_that_is_taken_while_the_group_rests_rests_too() -> None:
    """What its new owner fetched would be under way when the others have finished."""
    world = World()
    world.around.fetched_before[KEY] = 10
    world.join()
    assert world.handovers.ask(world.first, OTHER, lambda verdict: None) is Verdict.OFFSET
    world.around.fetched_before[OTHER] = world.around.done_before[OTHER] = 1
    assert not world.pull(world.first, OTHER)
    world.time.advance(2 * LIMIT_MS)
    assert world.pull(world.first, OTHER)


def test_nobody_is_asked_what_it_holds_while_it_keeps_up() -> None:
    """Members hear nothing of all this as long as they finish what they fetch."""
    world = World()
    for offset in range(2, 20):
        world.around.fetched_before[KEY] = offset
        world.time.advance(100)
        world.around.done_before[KEY] = offset
        world.time.advance(900)
    assert world.around.asked == 0
    world.around.fetched_before[KEY] = 100
    world.time.advance(10_000)
    assert 5 <= world.around.asked <= 10


def test_a_member_that_does_not_answer_is_not_asked_every_second() -> None:
    """A question that comes to nothing is repeated twice a minute."""
    world = World()
    world.around.threads = None
    world.around.fetched_before[KEY] = 100
    world.time.advance(60_000)
    assert 2 <= world.around.asked <= 3


def test_nobody_is_asked_where_nobody_is_waited_for() -> None:
    """With handoverDrainMillis=0 members hear no more than from RocketMQ, and it can be set while
    they are there."""
    world = World()
    world.limit_ms = 0
    world.around.fetched_before[KEY] = 100
    world.time.advance(60_000)
    assert world.around.asked == 0
    world.limit_ms = LIMIT_MS
    world.time.advance(2_000)
    assert world.around.asked


def test_looking_at_many_queues_takes_turns() -> None:
    """However many queues there are, one look costs no more than a bound; all have their turn."""
    world = World()
    looks: list[QueueKey] = []
    real = world.around.fetched

    def fetched(key: QueueKey) -> int | None:
        looks.append(key)
        return real(key)

    world.around.fetched = fetched  # type: ignore[method-assign]
    queues = 100
    members = [world.join() for _ in range(30)]
    world.time.advance(2 * LIMIT_MS)
    for number, member in enumerate(members):
        for queue in range(queues):
            key = QueueKey("g", "t", 2 + number * queues + queue)
            assert world.handovers.ask(member, key, lambda verdict: None) is Verdict.OFFSET
            world.around.fetched_before[key] = world.around.done_before[key] = 1
            world.pull(member, key)
    looks.clear()
    seen: set[QueueKey] = set()
    for _ in range(16):
        world.time.advance(LOOK_MS)
        assert len(looks) <= LOOKS_MAX + queues
        seen.update(looks)
        looks.clear()
    assert len(seen) == len(members) * queues + 1


@pytest.mark.parametrize("changing", [False, True])
def test_few_members_are_asked_at_a_time_and_all_have_their_turn(changing: bool) -> None:
    """However many lag, at rest or while their group finishes, questions are bounded, and those
    who were asked first do not use them up."""
    world = World()
    members = [world.join() for _ in range(8 * ASKS_MAX)]
    world.time.advance((QUICK_TIMES + 1) * LIMIT_MS)
    for number, member in enumerate(members):
        key = QueueKey("g", "t", 2 + number)
        assert world.handovers.ask(member, key, lambda verdict: None) is Verdict.OFFSET
        world.around.fetched_before[key] = world.around.done_before[key] = 1
        world.pull(member, key)
    world.time.advance(ASK_MS)
    assert not world.around.asked
    for key in world.around.fetched_before:
        world.around.fetched_before[key] = 10
    if changing:
        world.join()
    for _ in range(3 * len(members) // ASKS_MAX):
        asked = world.around.asked
        world.time.advance(LOOK_MS)
        assert world.around.asked - asked <= 2 * ASKS_MAX  # the parts of two rounds at most
    assert world.around.asked <= (3 * len(members) // ASKS_MAX + 1) * ASKS_MAX
    assert world.around.heard.issuperset(members)


def test_a_process_that_stood_still_tells_of_changes_soon_after() -> None:
    """A group that seems to have rested for ten minutes need not wait as long for its next news."""
    world = World()
    world.around.fetched_before[KEY] = 10
    world.join()
    world.time.advance(100)
    world.time.now_ms += 600_000
    world.time.advance(100)
    told = len(world.told_ms)
    world.join()
    world.time.advance(2 * QUICK_TIMES * LIMIT_MS)
    assert len(world.told_ms) > told


def test_late_answers_to_all_members_cost_no_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand members that ask while their group finishes are answered in one go."""
    world = World()
    members = [world.join() for _ in range(50)]
    world.time.advance((QUICK_TIMES + 1) * LIMIT_MS)
    for number, member in enumerate(members):
        key = QueueKey("g", "t", 2 + number)
        assert world.handovers.ask(member, key, lambda verdict: None) is Verdict.OFFSET
        world.around.fetched_before[key] = world.around.done_before[key] = 1
        world.pull(member, key)
    world.around.fetched_before[KEY] = 10
    before = world.members.client_ids("g")
    world.join()
    answers: list[list[str] | None] = []
    for member in members:
        assert not world.handovers.ask_members(member, "g", answers.append)
    world.time.advance(HELD_MS - 1)
    real, looks = QueueOwners.owned_by, 0

    def owned_by(owners: QueueOwners, connection: Connection, group: str) -> list[OwnedQueue]:
        nonlocal looks
        looks += 1
        return real(owners, connection, group)

    monkeypatch.setattr(QueueOwners, "owned_by", owned_by)
    world.time.advance(1)
    assert answers == [before] * len(members)
    assert looks <= 6 * len(members)


def test_a_group_that_has_gone_is_not_looked_at() -> None:
    """Nothing is remembered of it, and nothing is left to be done."""
    world = World()
    world.around.fetched_before[KEY] = 10
    world.time.advance(LIMIT_MS)
    world.members.closed(world.first)
    world.handovers.closed(world.first)
    world.time.advance(120_000)
    assert world.handovers.is_empty


def test_an_answer_that_makes_no_sense_says_nothing() -> None:
    """A member says what it likes of itself: fewer messages than none, threads without number."""
    place = MessageQueue(topic="t", broker_name="b", queue_id=0)
    other = MessageQueue(topic="t", broker_name="elsewhere", queue_id=0)
    table = {
        place: ProcessQueueInfo(cached_msg_count=-1_000),
        other: ProcessQueueInfo(cached_msg_count=30),
    }
    for threads in ("", "-1", "9" * 30, "many"):
        properties = {"PROP_CONSUMEORDERLY": "false", "PROP_THREADPOOL_CORE_SIZE": threads}
        info = ConsumerRunningInfo(properties=properties, mq_table=table)
        holdings = Holdings.of(info, "b")
        assert (holdings.held, holdings.threads) == (30, 0)
    orderly = {"PROP_CONSUMEORDERLY": "true", "PROP_THREADPOOL_CORE_SIZE": "20"}
    assert Holdings.of(ConsumerRunningInfo(properties=orderly), "b").threads == 0


@pytest.mark.parametrize(("asked_ms", "known_ms"), [(600, None), (100 + LOST_MS, 600)])
def test_who_has_just_lost_a_queue_cannot_say_that_all_have_begun(
    asked_ms: int, known_ms: int | None
) -> None:
    """Its handlers may still keep threads busy, which the count of what it holds leaves out."""
    history = History()
    history.look({KEY: Seen(0, 0, False), OTHER: Seen(0, 0, False)}, 0)
    history.look({KEY: Seen(10, 0, False)}, 100)
    history.all_at_work(asked_ms, asked_ms + 1)
    assert history.at_work_ms(KEY, asked_ms + 601) == known_ms
