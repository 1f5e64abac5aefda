"""The judge of the runs is seen to condemn: each invariant once kept and once broken."""

from collections.abc import Callable

import pytest

from aerobee.remoting.words import SCHEDULE_TOPIC
from simulation.judge.attempts import Outcome, Place
from simulation.judge.causes import SETTLED_S, Cause
from simulation.judge.ledger import Group, Kind, Ledger
from simulation.stage.trace import Trace

PLACE = Place("t", "broker-a", 0)


class Clock:
    """A clock that is set by hand."""

    now_s = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """The time."""
    return Clock()


@pytest.fixture
def ledger(clock: Clock) -> Ledger:
    """A ledger with a group of each kind."""
    made = Ledger(clock, Trace(clock, None))
    made.groups = {
        "g": Group("g", ("t",)),
        "o": Group("o", ("t",), orderly=True),
        "f": Group("f", ("t",), foreign=True),
    }
    return made


def handle(
    ledger: Ledger, member: str, offset: int, outcome: Outcome = Outcome.DONE, group: str = "g"
) -> None:
    """Let a member handle the message at an offset."""
    ledger.end(ledger.begin(group, member, PLACE, offset, b"%d" % offset), outcome)


def kinds(ledger: Ledger) -> list[Kind]:
    """Name what the ledger finds wrong."""
    return [violation.kind for violation in ledger.violations()]


def test_an_acknowledged_message_must_be_handled(ledger: Ledger) -> None:
    """Every group of the topic has to be done with it; a failed attempt is not enough."""
    ledger.acknowledge(b"0", PLACE, 0)
    for group in ("g", "o"):
        handle(ledger, "m", 0, group=group)
    handle(ledger, "m", 0, Outcome.FAILED, group="f")
    (violation,) = ledger.violations()
    assert violation.kind is Kind.LOST
    assert "f never handled 1: t/broker-a/0:0" in violation.what
    handle(ledger, "m", 0, group="f")
    assert not ledger.violations()


def test_a_message_that_is_done_must_not_come_again(ledger: Ledger) -> None:
    """Neither after its end nor while it is handled; unless it failed or foreigners are there."""
    handle(ledger, "m", 0, Outcome.FAILED)
    handle(ledger, "m", 0)
    assert not ledger.violations()
    handle(ledger, "n", 0)
    assert kinds(ledger) == [Kind.TWICE]
    ledger.begin("g", "m", PLACE, 1, b"1")
    ledger.begin("g", "n", PLACE, 1, b"1")
    assert kinds(ledger) == [Kind.TWICE] * 2
    handle(ledger, "m", 0, group="f")
    handle(ledger, "n", 0, group="f")
    assert kinds(ledger) == [Kind.TWICE] * 2


def twice(ledger: Ledger, clock: Clock, first_s: float, second_s: float, offset: int = 0) -> None:
    """Let two members handle a message, each at its time."""
    clock.now_s = first_s
    handle(ledger, "m", offset)
    clock.now_s = second_s
    handle(ledger, "n", offset)


@pytest.mark.parametrize("cause", Cause, ids=lambda each: each.name)
@pytest.mark.parametrize("subject", ["m", "n", "broker-a"])
def test_a_disturbance_excuses_what_it_reaches(
    ledger: Ledger, clock: Clock, subject: str, cause: Cause
) -> None:
    """Both members and the broker count; what was done long before does not, nor what is late."""
    clock.now_s = begins_s = 100.0
    ledger.disturb(subject, cause, 10.0)
    reach = cause.reach
    first_s, last_s = begins_s - reach.before_s, begins_s + 10.0 + reach.after_s
    latest_s = begins_s + 10.0 + SETTLED_S
    twice(ledger, clock, first_s, begins_s, offset=0)
    twice(ledger, clock, latest_s, last_s, offset=1)
    assert not ledger.violations()
    too_early_or_late = (
        (first_s - 0.1, begins_s),
        (latest_s + 0.1, latest_s + 0.1),
        (first_s, last_s + 0.1),
        (begins_s - 0.2, begins_s - 0.1),
    )
    for offset, (one_s, other_s) in enumerate(too_early_or_late, 2):
        twice(ledger, clock, one_s, other_s, offset)
        assert kinds(ledger) == [Kind.TWICE] * (offset - 1)


def test_a_broker_is_down_until_it_is_back(ledger: Ledger, clock: Clock) -> None:
    """Its trouble lasts as long as it does not run, however long that is."""
    ledger.down("broker-a", Cause.BROKER_DIED)
    clock.now_s = 1000.0
    ledger.back("broker-a")
    after_s = Cause.BROKER_DIED.reach.after_s
    twice(ledger, clock, 1000.0, 1000.0 + after_s, offset=0)
    assert not ledger.violations()
    twice(ledger, clock, 1000.0, 1000.1 + after_s, offset=1)
    assert kinds(ledger) == [Kind.TWICE]


@pytest.mark.parametrize("broker", ["broker-a", "broker-b"])
def test_nobody_reads_a_queue_whose_broker_is_down_again(
    ledger: Ledger, clock: Clock, broker: str
) -> None:
    """The time within which the second delivery has to come begins anew then, at that broker."""
    ledger.disturb("m", Cause.RESET)
    begins_s = clock.now_s = Cause.RESET.reach.after_s
    ledger.disturb(broker, Cause.BROKER_STOPPED, 50.0)
    twice(ledger, clock, 0.0, begins_s + 50.0 + Cause.BROKER_STOPPED.reach.after_s)
    assert bool(ledger.violations()) == (broker == "broker-b")


@pytest.mark.parametrize("subject", ["somebody", "broker-b"])
def test_a_disturbance_excuses_nothing_else(ledger: Ledger, subject: str) -> None:
    """Trouble elsewhere is no reason."""
    ledger.disturb(subject, Cause.BROKER_DIED, 10.0)
    handle(ledger, "m", 0)
    handle(ledger, "n", 0)
    assert kinds(ledger) == [Kind.TWICE]


def test_a_dead_member_has_handled_nothing(ledger: Ledger) -> None:
    """What it was at when it died may come again."""
    ledger.begin("g", "m", PLACE, 0, b"0")
    ledger.give_up_all("m")
    handle(ledger, "n", 0)
    assert not ledger.violations()


def test_committed_offsets_only_grow(ledger: Ledger) -> None:
    """Unless their broker was killed and has forgotten."""
    ledger.commit("g", PLACE, 5)
    ledger.commit("g", PLACE, 5)
    ledger.commit("o", PLACE, 3)
    ledger.forget_commits("broker-a")
    ledger.commit("g", PLACE, 4)
    assert not ledger.violations()
    ledger.commit("g", PLACE, 3)
    assert kinds(ledger) == [Kind.WENT_BACK]


def out_of_order(ledger: Ledger) -> None:
    """Skip a message."""
    handle(ledger, "m", 0, group="o")
    handle(ledger, "m", 2, group="o")


def two_at_a_time(ledger: Ledger) -> None:
    """Begin the next one before the end."""
    ledger.begin("o", "m", PLACE, 0, b"0")
    ledger.begin("o", "n", PLACE, 0, b"0")


@pytest.mark.parametrize("offend", [out_of_order, two_at_a_time])
def test_orderly_means_one_after_the_other(
    ledger: Ledger, offend: Callable[[Ledger], None]
) -> None:
    """An orderly group handles a queue in order, one message at a time."""
    offend(ledger)
    assert Kind.ORDER in kinds(ledger)


@pytest.mark.parametrize("subject", ["m", "broker-a"])
def test_two_at_a_time_are_excused_by_lost_locks_alone(ledger: Ledger, subject: str) -> None:
    """A cut connection is no reason; a broker's death or a handler without end is."""
    ledger.disturb(subject, Cause.HALF_OPEN, 100.0)
    two_at_a_time(ledger)
    assert kinds(ledger) == [Kind.ORDER]
    ledger.give_up_all("m")
    ledger.give_up_all("n")
    ledger.disturb(subject, Cause.BROKER_DIED, 100.0)
    two_at_a_time(ledger)
    assert kinds(ledger) == [Kind.ORDER]


def test_order_is_kept_over_failures(ledger: Ledger) -> None:
    """A message that failed is handled again before the next one."""
    for offset in range(3):
        handle(ledger, "m", offset, Outcome.FAILED, group="o")
        handle(ledger, "n", offset, group="o")
    assert not ledger.violations()


def test_a_late_answer_needs_a_reason(ledger: Ledger, clock: Clock) -> None:
    """Who must not be kept waiting is not, as long as nothing else is wrong."""
    ledger.disturb("m", Cause.CUT_OFF, 1.0)
    ledger.late_answer("m", PLACE, 3.0)
    assert not ledger.violations()
    clock.now_s = 100.0
    ledger.late_answer("m", PLACE, 3.0)
    assert kinds(ledger) == [Kind.SLOW]


DELAYS = Place(SCHEDULE_TOPIC, "broker-a", 0)


def test_what_has_an_offset_that_power_took_may_be_passed_over(ledger: Ledger) -> None:
    """By members that are beyond the queue's new end; what was flushed never."""
    ledger.doubted[PLACE].append(range(5, 7))
    for offset in range(4, 8):
        ledger.acknowledge(b"%d" % offset, PLACE, offset)
    for group in ledger.groups.values():
        assert ledger.unhandled(group) == [b"4", b"7"]


def test_a_delayed_message_is_handled_by_the_groups_of_its_topic(ledger: Ledger) -> None:
    """Whatever topic it waits in until it is due."""
    ledger.wait(b"0", "t", DELAYS, 7)
    assert kinds(ledger) == [Kind.LOST] * 3
    for group in ledger.groups:
        handle(ledger, "m", 0, group=group)
    assert not ledger.violations()


def test_a_delayed_message_comes_at_one_offset(ledger: Ledger, clock: Clock) -> None:
    """But where its broker has lost power, and with it the first copy."""
    for offset, at_s in ((0, 1.0), (1, 2.0)):
        clock.now_s = at_s
        ledger.end(ledger.begin("g", "m", PLACE, offset, b"x", "1-7"), Outcome.DONE)
    assert kinds(ledger) == [Kind.TWICE]
    clock.now_s = 3.0
    ledger.disturb("broker-a", Cause.BROKER_DIED)
    ledger.begin("g", "m", PLACE, 2, b"x", "1-7")
    assert kinds(ledger) == [Kind.TWICE] * 2
    ledger.disturb("broker-a", Cause.BROKER_LOST_POWER)
    ledger.begin("g", "m", PLACE, 3, b"x", "1-7")
    assert kinds(ledger) == [Kind.TWICE] * 2


def test_what_was_fetched_before_a_power_cut_is_handled_after_it(
    ledger: Ledger, clock: Clock
) -> None:
    """Until the broker is back; then its message may have another place."""
    ledger.down("broker-a", Cause.BROKER_LOST_POWER)
    clock.now_s = 1.0
    ledger.begin("g", "m", PLACE, 0, b"x", "1-7")
    clock.now_s = 2.0
    ledger.back("broker-a")
    ledger.begin("g", "m", PLACE, 1, b"x", "1-7")
    clock.now_s = 9.0
    ledger.begin("o", "m", PLACE, 0, b"x", "1-7")
    ledger.begin("o", "m", PLACE, 1, b"x", "1-7")
    assert kinds(ledger).count(Kind.TWICE) == 1
