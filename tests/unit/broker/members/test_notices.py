"""Notices of changed groups: soon, to everybody, and not a million of them."""

from collections.abc import Callable

from support.stand_ins.fake_connection import FakeConnection

from aerobee.broker.members.notices import QUIET_S, ChangeNotices
from aerobee.remoting.codes import RequestCode


class Timers:
    """call_later without a loop."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, Callable[[], None]]] = []

    def __call__(self, delay_s: float, function: Callable[[], None]) -> None:
        self.waiting.append((delay_s, function))

    def fire(self, delay_s: float) -> int:
        """Run the functions that wait for exactly `delay_s`."""
        due = [function for delay, function in self.waiting if delay == delay_s]
        self.waiting = [each for each in self.waiting if each[0] != delay_s]
        for function in due:
            function()
        return len(due)


def test_a_change_is_told_at_the_end_of_the_turn() -> None:
    """Code 40, one-way, with the group's name; closed connections are passed over."""
    timers, alive, closed = Timers(), FakeConnection(), FakeConnection()
    closed.closed = True
    notices = ChangeNotices(timers, lambda: True)
    notices("g", [alive, closed])
    assert not alive.sent
    timers.fire(0)
    (notice,) = alive.sent
    assert notice.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    assert notice.ext == {"consumerGroup": "g"}
    assert not closed.sent


def test_changes_in_quick_succession_are_told_together() -> None:
    """A thousand joins cost a first notice and one for all the others, with the latest members."""
    timers = Timers()
    notices = ChangeNotices(timers, lambda: True)
    members = [FakeConnection() for _ in range(1000)]
    for count in range(1, 1001):
        notices("g", [member for member in members[:count]])
        timers.fire(0)
    assert notices.sent == 1
    timers.fire(QUIET_S)
    assert notices.sent == 1001
    assert all(member.sent for member in members)
    assert timers.fire(QUIET_S) == 1, "the quiet time after the second round"
    assert not timers.waiting
    notices("g", [members[0]])
    assert timers.fire(0) == 1, "afterwards a change is told at once again"


def test_other_groups_do_not_wait() -> None:
    """Each group has its own quiet time."""
    timers, connection = Timers(), FakeConnection()
    notices = ChangeNotices(timers, lambda: True)
    for group in ("g", "h"):
        notices(group, [connection])
        timers.fire(0)
    assert [notice.ext["consumerGroup"] for notice in connection.sent] == ["g", "h"]


def test_notices_can_be_switched_off() -> None:
    """notifyConsumerIdsChangedEnable=false of the whole broker."""
    timers, connection = Timers(), FakeConnection()
    notices = ChangeNotices(timers, lambda: False)
    notices("g", [connection])
    timers.fire(0)
    assert not connection.sent
