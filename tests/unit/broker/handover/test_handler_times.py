"""Hand-overs tell handlers that take long from quick ones with much to do, in virtual time."""

import pytest
from support.working_group import KEY, LIMIT_MS, OTHER, TOLD_WITHIN_MS, World

from aerobee.broker.handover.draining import MISSES_MAX, QUICK_MS, QUICK_TIMES
from aerobee.broker.handover.owned_queue import Verdict
from aerobee.remoting.command import Language


def test_handlers_that_take_long_are_known_at_a_groups_first_change() -> None:
    """Nobody waits for what was at work for seconds already: the pause is as short as any."""
    world = World()
    world.environment.fetched_before[KEY] = 10
    world.time.advance(LIMIT_MS)
    assert QUICK_MS <= world.told_after() <= QUICK_MS + TOLD_WITHIN_MS


@pytest.mark.parametrize(
    ("language", "threads"), [(Language.JAVA, 5), (Language.GO, 20), (Language.JAVA, 0)]
)
def test_messages_that_may_wait_for_a_thread_are_waited_for(language: int, threads: int) -> None:
    """That a message is old says nothing of its handler where there are fewer threads than work."""
    world = World(language=language)
    world.environment.threads = threads
    world.environment.fetched_before[KEY] = 10
    world.time.advance(LIMIT_MS)
    assert LIMIT_MS <= world.told_after() <= LIMIT_MS + TOLD_WITHIN_MS


def test_a_pull_that_was_long_on_its_way_makes_no_handler_slow() -> None:
    """It shows what was unfinished when it was sent, not when it came."""
    world = World()
    world.environment.fetched_before[KEY] = 10
    world.time.advance(2_000)
    assert 2_000 < 0.6 * LIMIT_MS < 2_000 + 2_500
    world.environment.pull_takes_ms = 2_500

    def finish() -> None:
        world.environment.done_before[KEY], world.environment.pull_takes_ms = 10, 1

    world.time.later(2.6, finish)
    assert world.told_after() >= 2_600, "they are told when it has finished"


def test_what_was_fetched_later_and_is_finished_shows_what_has_begun() -> None:
    """Java's threads take messages in the order in which they were fetched, of all queues."""
    world = World()
    world.environment.threads = 0  # it does not say
    world.take(OTHER)
    world.environment.fetched_before[KEY] = 10
    world.time.advance(1_000)
    world.environment.fetched_before[OTHER] = world.environment.done_before[OTHER] = 5
    world.time.advance(LIMIT_MS)
    assert QUICK_MS <= world.told_after() <= QUICK_MS + TOLD_WITHIN_MS


def test_what_is_filtered_out_shows_nothing() -> None:
    """It needs no thread: that it was passed over does not say that others have begun."""
    world = World(wanted="a || b")
    world.environment.threads = 0
    world.take(OTHER)
    world.environment.fetched_before[KEY] = 10
    world.time.advance(1_000)
    world.environment.fetched_before[OTHER] = world.environment.done_before[OTHER] = 5
    world.time.advance(LIMIT_MS)
    assert LIMIT_MS <= world.told_after() <= LIMIT_MS + TOLD_WITHIN_MS


def test_quick_handlers_may_finish_a_backlog() -> None:
    """It takes longer than the limit, but ends soon enough: nothing is under way at the notice."""
    world = World()
    world.environment.fetched_before[KEY] = 2_000
    world.work_off(per_second=200)
    told_after_ms = world.told_after()
    assert LIMIT_MS < told_after_ms <= QUICK_TIMES * LIMIT_MS
    assert world.environment.done_before[KEY] == 2_000


def test_a_backlog_that_takes_too_long_is_not_waited_for_and_no_sign_of_slow_handlers() -> None:
    """Waiting for a part of it would change nothing; the next changes are treated the same."""
    world = World()
    world.environment.fetched_before[KEY] = 1_000_000
    world.work_off(per_second=200)
    for _ in range(MISSES_MAX + 1):
        assert LIMIT_MS <= world.told_after() <= LIMIT_MS + TOLD_WITHIN_MS
        world.time.advance(QUICK_TIMES * LIMIT_MS)


def test_a_queue_that_is_taken_while_the_group_rests_rests_too() -> None:
    """What its new owner fetched would be under way when the others have finished."""
    world = World()
    world.environment.fetched_before[KEY] = 10
    world.join()
    assert world.handovers.ask(world.first, OTHER, lambda verdict: None) is Verdict.OFFSET
    world.environment.fetched_before[OTHER] = world.environment.done_before[OTHER] = 1
    assert not world.pull(world.first, OTHER)
    world.time.advance(2 * LIMIT_MS)
    assert world.pull(world.first, OTHER)
