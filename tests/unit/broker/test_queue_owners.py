"""Whoever asks for a queue is answered, whatever becomes of the others."""

from support.fake_connection import FakeConnection
from support.quiet_surroundings import QuietSurroundings
from support.virtual_time import VirtualTime

from aerobee.broker.faults import Faults
from aerobee.broker.owned_queue import Holder, OwnedQueue, QueueKey, Verdict
from aerobee.broker.queue_owners import QueueOwners


def test_an_answer_that_raises_strands_nobody() -> None:
    """The queue changes hands, the next one hears of it, and the fault is counted."""
    time, faults = VirtualTime(), Faults()
    owners = QueueOwners(QuietSurroundings(), time.clock_ms, time.later, lambda: 1000, faults)
    queue = OwnedQueue(QueueKey("G", "T", 0), Holder(FakeConnection(), "c1", None))
    asker = Holder(FakeConnection(), "c2", None)
    heard: list[Verdict] = []

    def broken(verdict: Verdict) -> None:
        raise RuntimeError("the connection is in a state that nobody foresaw")

    owners.put_on_hold(queue, asker, broken)
    owners.put_on_hold(queue, asker, heard.append)
    owners.vacate(queue, "released")
    assert heard == [Verdict.OFFSET]
    assert queue.is_owned_by(asker.connection)
    assert faults.counts == {"handover answer": 1}
