"""What is seen of groups over time."""

from aerobee.admin.groups import GroupProgress
from aerobee.console.sight import OWNED_GROUPS_MAX, OWNER_CHANGES_MAX, OwnerHistory


def queue(queue_id: int, owner: str) -> GroupProgress:
    """Return a queue with its owner."""
    return GroupProgress("orders", "broker-a", queue_id, 0, 0, 0, owner)


def test_a_queue_that_got_another_owner_is_told_with_both() -> None:
    """The first look tells nothing, and a member that is silent for once has lost nothing."""
    history = OwnerHistory()
    history.note("g", [queue(0, "a"), queue(1, "a")], 1)
    assert history.changes("g") == []
    history.note("g", [queue(0, ""), queue(1, "")], 2)
    history.note("g", [queue(0, "a"), queue(1, "b"), queue(2, "b")], 3)
    told = [(each.at_ms, each.queue_id, each.before, each.after) for each in history.changes("g")]
    assert told == [(3, 2, "", "b"), (3, 1, "a", "b")]


def test_histories_are_bounded() -> None:
    """In groups and in changes of each."""
    history = OwnerHistory()
    for number in range(OWNER_CHANGES_MAX + 50):
        history.note("g", [queue(0, str(number))], number)
    assert len(history.changes("g")) == OWNER_CHANGES_MAX
    for number in range(OWNED_GROUPS_MAX):
        history.note(f"g{number}", [], 0)
    assert history.changes("g") == []
