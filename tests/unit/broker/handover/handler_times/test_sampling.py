"""Who is looked at and asked, how often, and what the answers say."""

import pytest
from support.working_group import KEY, LIMIT_MS, OTHER, World

from aerobee.broker.handover.draining import QUICK_TIMES
from aerobee.broker.handover.environment import Holdings
from aerobee.broker.handover.handler_times.history import LOST_MS, History, Seen
from aerobee.broker.handover.handler_times.sampling import ASK_MS, ASKS_MAX, LOOK_MS, LOOKS_MAX
from aerobee.broker.handover.held_questions import HELD_MS
from aerobee.broker.handover.owned_queue import OwnedQueue, Verdict
from aerobee.broker.handover.owners import QueueOwners
from aerobee.broker.members.group import GroupQueue
from aerobee.remoting.bodies import (
    ConsumerRunningInfo,
    ProcessQueueInfo,
    QueueBody,
)
from aerobee.remoting.net.connection import Connection


def test_nobody_is_asked_what_it_holds_while_it_keeps_up() -> None:
    """Members hear nothing of all this as long as they finish what they fetch."""
    world = World()
    for offset in range(2, 20):
        world.environment.fetched_before[KEY] = offset
        world.time.advance(100)
        world.environment.done_before[KEY] = offset
        world.time.advance(900)
    assert world.environment.asked == 0
    world.environment.fetched_before[KEY] = 100
    world.time.advance(10_000)
    assert 5 <= world.environment.asked <= 10


def test_a_member_that_does_not_answer_is_not_asked_every_second() -> None:
    """A question that comes to nothing is repeated twice a minute."""
    world = World()
    world.environment.threads = None
    world.environment.fetched_before[KEY] = 100
    world.time.advance(60_000)
    assert 2 <= world.environment.asked <= 3


def test_nobody_is_asked_where_nobody_is_waited_for() -> None:
    """With handoverDrainMillis=0 members hear no more than from RocketMQ, and it can be set while
    they are there."""
    world = World()
    world.limit_ms = 0
    world.environment.fetched_before[KEY] = 100
    world.time.advance(60_000)
    assert world.environment.asked == 0
    world.limit_ms = LIMIT_MS
    world.time.advance(2_000)
    assert world.environment.asked


def test_looking_at_many_queues_takes_turns() -> None:
    """However many queues there are, one look costs no more than a bound; all have their turn."""
    world = World()
    looks: list[GroupQueue] = []
    real = world.environment.fetched

    def fetched(key: GroupQueue) -> int | None:
        looks.append(key)
        return real(key)

    world.environment.fetched = fetched  # type: ignore[method-assign]
    queues = 100
    members = [world.join() for _ in range(30)]
    world.time.advance(2 * LIMIT_MS)
    for number, member in enumerate(members):
        for queue in range(queues):
            key = GroupQueue("g", "t", 2 + number * queues + queue)
            assert world.handovers.ask(member, key, lambda verdict: None) is Verdict.OFFSET
            world.environment.fetched_before[key] = world.environment.done_before[key] = 1
            world.pull(member, key)
    looks.clear()
    seen: set[GroupQueue] = set()
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
        key = GroupQueue("g", "t", 2 + number)
        assert world.handovers.ask(member, key, lambda verdict: None) is Verdict.OFFSET
        world.environment.fetched_before[key] = world.environment.done_before[key] = 1
        world.pull(member, key)
    world.time.advance(ASK_MS)
    assert not world.environment.asked
    for key in world.environment.fetched_before:
        world.environment.fetched_before[key] = 10
    if changing:
        world.join()
    for _ in range(3 * len(members) // ASKS_MAX):
        asked = world.environment.asked
        world.time.advance(LOOK_MS)
        assert world.environment.asked - asked <= 2 * ASKS_MAX  # the parts of two rounds at most
    assert world.environment.asked <= (3 * len(members) // ASKS_MAX + 1) * ASKS_MAX
    assert world.environment.heard.issuperset(members)


def test_a_process_that_stood_still_tells_of_changes_soon_after() -> None:
    """A group that seems to have rested for ten minutes need not wait as long for its next news."""
    world = World()
    world.environment.fetched_before[KEY] = 10
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
        key = GroupQueue("g", "t", 2 + number)
        assert world.handovers.ask(member, key, lambda verdict: None) is Verdict.OFFSET
        world.environment.fetched_before[key] = world.environment.done_before[key] = 1
        world.pull(member, key)
    world.environment.fetched_before[KEY] = 10
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
    world.environment.fetched_before[KEY] = 10
    world.time.advance(LIMIT_MS)
    world.members.closed(world.first)
    world.handovers.closed(world.first)
    world.time.advance(120_000)
    assert world.handovers.is_empty


def test_an_answer_that_makes_no_sense_says_nothing() -> None:
    """A member says what it likes of itself: fewer messages than none, threads without number."""
    place = QueueBody(topic="t", broker_name="b", queue_id=0)
    other = QueueBody(topic="t", broker_name="elsewhere", queue_id=0)
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
