"""What a lite pull consumer says that it holds counts for what it had fetched when it was asked."""

from collections.abc import Callable

from support.stand_ins.fake_connection import FakeConnection
from support.stand_ins.quiet_environment import QuietEnvironment

from aerobee.broker.handover.environment import Holdings
from aerobee.broker.handover.lite_pull_progress import LitePullProgress
from aerobee.broker.handover.owned_queue import Holder, OwnedQueue
from aerobee.broker.handover.owners import QueueOwners
from aerobee.broker.members.group import GroupQueue
from aerobee.broker.members.registry import Members
from aerobee.remoting.net.connection import Connection

KEY = GroupQueue("g", "t", 0)
NOTHING_HELD = Holdings(auto_commit=True, batch_max=10, queues={("t", 0): (0, 1), ("u", 0): (0, 2)})


class Asked(QuietEnvironment):
    """A broker that notes what it commits, and answers 307 when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.waits_at = 100
        self.stored: dict[GroupQueue, int] = {}
        self.answer: Callable[[Holdings | None], None] = lambda holdings: None

    def committed(self, key: GroupQueue) -> int | None:
        """Return what was committed here."""
        return self.stored.get(key)

    def pulls_at(self, connection: Connection, key: GroupQueue) -> int | None:
        """There is one pull."""
        return self.waits_at

    def commit(self, key: GroupQueue, offset: int) -> None:
        """Note it."""
        self.stored[key] = offset

    def ask_holdings(
        self, connection: Connection, group: str, answered: Callable[[Holdings | None], None]
    ) -> None:
        """Let the test answer."""
        self.answer = answered


def looked_at() -> tuple[Asked, OwnedQueue, list[OwnedQueue]]:
    """Have the owner of a queue that drains asked; return its environment, it, and those done."""
    environment, connection = Asked(), FakeConnection()
    owners = QueueOwners(environment, lambda: 1000)
    queue = OwnedQueue(KEY)
    queue.give(Holder(connection, "c1", None))
    queue.rest()
    finished: list[OwnedQueue] = []
    handed_out = LitePullProgress(
        Members(lambda group, told: None, environment.clock_ms), owners, environment
    )
    handed_out.look(connection, [queue], finished.append)
    return environment, queue, finished


def test_what_was_handed_out_is_committed() -> None:
    """All before the pull that waits."""
    environment, queue, finished = looked_at()
    environment.answer(NOTHING_HELD)
    assert environment.stored == {KEY: 100}
    assert finished == [queue]


def test_messages_that_came_meanwhile_are_not_committed() -> None:
    """The consumer may not have filed them yet when it says that it holds nothing."""
    environment, _, finished = looked_at()
    environment.waits_at = 110
    environment.answer(NOTHING_HELD)
    assert (environment.stored, finished) == ({}, [])


def test_a_queue_that_was_given_to_somebody_else_is_let_alone() -> None:
    """Whatever the answer is, it is not about the new owner."""
    for answer in (NOTHING_HELD, None):
        environment, queue, finished = looked_at()
        queue.give(Holder(FakeConnection("10.0.0.2:1"), "c2", None))
        environment.answer(answer)
        assert (environment.stored, finished) == ({}, [])
