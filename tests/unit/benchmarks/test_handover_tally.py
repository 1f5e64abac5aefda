"""What the hand-over benchmark counts."""

from benchmarks.handovers.handover_tally import Pauses, Tally


def test_what_came_twice_and_what_never_is_counted_per_group() -> None:
    """One message comes twice in one group, one never in the other."""
    tally = Tally()
    for number in range(3):
        tally.note("a", "one", ("t", 0, number), number, at_ms=number)
    tally.note("a", "two", ("t", 0, 2), 2, at_ms=9)
    tally.note("b", "one", ("t", 0, 0), 0, at_ms=0)
    tally.note("b", "one", ("t", 0, 2), 2, at_ms=0)

    outcome = tally.outcome(sent=3, groups=["a", "b"])

    assert (outcome.sent, outcome.delivered, outcome.twice, outcome.lost) == (3, 6, 1, 1)


def test_a_message_stored_twice_by_its_sender_did_not_come_twice() -> None:
    """The sender's repetition has an offset of its own."""
    tally = Tally()
    tally.note("a", "one", ("t", 0, 0), 0, at_ms=0)
    tally.note("a", "one", ("t", 0, 1), 0, at_ms=0)

    assert tally.outcome(sent=1, groups=["a"]).twice == 0


def test_a_pause_ends_with_the_first_new_message_of_the_new_owner() -> None:
    """What the new owner repeats hides nothing of the pause; other queues have their own."""
    tally = Tally()
    tally.note("a", "one", ("t", 0, 0), 0, at_ms=100)
    tally.note("a", "two", ("t", 0, 0), 0, at_ms=110)
    tally.note("a", "two", ("t", 0, 1), 1, at_ms=350)
    tally.note("a", "one", ("t", 1, 0), 2, at_ms=120)

    assert tally.outcome(sent=3, groups=["a"]).pauses == Pauses(1, 250, 250, 250)


def test_pauses_after_joins_are_told_apart() -> None:
    """One that leaves waits for its own handlers: the broker has no part in that."""
    tally = Tally()
    for change_ms, joins in ((90, True), (500, False)):
        tally.note_change(change_ms, joins=joins)
    for number, (at_ms, member) in enumerate(((100, "one"), (200, "two"), (900, "one"))):
        tally.note("a", member, ("t", 0, number), number, at_ms=at_ms)

    found = tally.outcome(sent=3, groups=["a"])

    assert found.pauses == Pauses(2, 700, 700, 700)
    assert found.joins == Pauses(1, 100, 100, 100)


def test_without_a_move_there_is_no_pause() -> None:
    """One member had all."""
    tally = Tally()
    tally.note("a", "one", ("t", 0, 0), 0, at_ms=100)
    tally.note("a", "one", ("t", 0, 1), 1, at_ms=900)

    assert tally.outcome(sent=2, groups=["a"]).pauses.moves == 0
