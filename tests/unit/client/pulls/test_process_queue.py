"""The committed offset never passes a message that is not done."""

import asyncio
import random

from aerobee.client.message import MessageQueue
from aerobee.client.pulls.process_queue import ProcessQueue
from aerobee.client.received import ReceivedMessage

QUEUE = MessageQueue("t", "broker-a", 0)


def message(offset: int, body: bytes = b"12345") -> ReceivedMessage:
    """Build a message of the queue."""
    return ReceivedMessage(
        QUEUE,
        body,
        offset,
        0,
        0,
        0,
        0,
        0,
        0,
        len(body),
        b"",
        bytes(8),
        bytes(8),
        held_bytes=len(body),
    )


def test_the_oldest_message_holds_the_offset() -> None:
    """Whatever is done behind it, the offset to commit is that of the oldest one not done."""
    process = ProcessQueue(10)
    batch = [message(offset) for offset in range(10, 15)]
    process.put(batch, 15)
    assert (process.committable, process.count, process.bytes, process.span) == (10, 5, 25, 4)
    process.done(batch[2])
    process.done(batch[1])
    assert process.committable == 10
    process.done(batch[0])
    assert process.committable == 13
    process.done(batch[4])
    process.done(batch[3])
    assert (process.committable, process.count, process.bytes, process.span) == (15, 0, 0, 0)


def test_what_is_done_twice_counts_once() -> None:
    """Also behind an older message that is not done."""
    process = ProcessQueue(10)
    batch = [message(at) for at in range(10, 13)]
    process.put(batch, 13)
    process.done(batch[1])
    assert [process.holds(each) for each in batch] == [True, False, True]
    process.done(batch[1])
    assert process.count == 2
    process.done(batch[0])
    process.done(batch[0])
    assert (process.committable, process.count) == (12, 1)


def test_what_was_filtered_out_counts_as_done() -> None:
    """With nothing left to do, the offset to commit is where the next pull begins."""
    process = ProcessQueue(10)
    process.put([], 42)
    assert process.committable == 42
    kept = message(45)
    process.put([kept], 50)
    assert process.committable == 45
    process.done(kept)
    assert process.committable == 50


def test_any_order_of_ends_keeps_the_invariant() -> None:
    """For random orders the offset to commit always equals that of a plain model."""
    seed = random.randrange(1 << 32)
    print(f"seed={seed}")
    choose = random.Random(seed)
    for _ in range(100):
        process, waiting, offset = ProcessQueue(0), list[ReceivedMessage](), 0
        for _ in range(choose.randrange(1, 60)):
            if waiting and choose.random() < 0.6:
                process.done(waiting.pop(choose.randrange(len(waiting))))
            else:
                batch = []
                for _ in range(choose.randrange(0, 5)):
                    offset += choose.randrange(1, 4)
                    batch.append(message(offset - 1))
                process.put(batch, offset)
                waiting += batch
            oldest = min((each.queue_offset for each in waiting), default=offset)
            assert process.committable == oldest
            assert process.count == len(waiting)


def test_several_at_once_are_done_as_one_by_one() -> None:
    """Whole pulls and parts of them, with gaps or without, in any order, and some again."""
    seed = random.randrange(1 << 32)
    print(f"seed={seed}")
    choose = random.Random(seed)
    for _ in range(100):
        at_once, each, offset = ProcessQueue(0), ProcessQueue(0), 0
        pulls = []
        for _ in range(choose.randrange(1, 12)):
            pulled = []
            for _ in range(choose.randrange(1, 9)):
                offset += choose.choice([1, 1, 1, 2])
                pulled.append(message(offset - 1, b"x" * choose.randrange(9)))
            pulls.append(pulled)
            for process in (at_once, each):
                process.put(pulled, offset)
        for _ in range(60):
            pulled = choose.choice(pulls)
            begin, behind = sorted(choose.choices(range(len(pulled) + 1), k=2))
            some = pulled[begin:behind]
            if choose.random() < 0.1:
                some = some[::-1]
            at_once.done_all(some)
            for one in some:
                each.done(one)
            assert at_once.statistics() == each.statistics()
            assert at_once.committable == each.committable
            assert [at_once.holds(one) for one in pulled] == [each.holds(one) for one in pulled]


async def test_waiting_for_room_ends_when_there_is_some() -> None:
    """The wait ends as soon as few enough messages are left, long before its time is up."""
    process = ProcessQueue(0)
    batch = [message(offset) for offset in range(4)]
    process.put(batch, 4)
    waiting = asyncio.ensure_future(process.wait_for_room(2, 60))
    await asyncio.sleep(0)
    process.done(batch[0])
    await asyncio.sleep(0)
    assert not waiting.done()
    process.done(batch[1])
    await asyncio.wait_for(waiting, 5)


async def test_waiting_for_room_ends_with_the_queue_and_in_time() -> None:
    """A dropped queue ends the wait, and so does its time."""
    process = ProcessQueue(0)
    process.put([message(0)], 1)
    await asyncio.wait_for(process.wait_for_room(0, 0.01), 5)
    waiting = asyncio.ensure_future(process.wait_for_room(0, 60))
    await asyncio.sleep(0)
    process.drop()
    await asyncio.wait_for(waiting, 5)
    assert process.dropped


async def test_idle_means_that_no_handler_runs() -> None:
    """Waiting for idleness ends with the last handler, or unfulfilled when time is up."""
    process = ProcessQueue(0)
    assert await process.wait_idle(0)
    process.begun()
    process.begun()
    assert not await process.wait_idle(0.01)
    waiting = asyncio.ensure_future(process.wait_idle(60))
    await asyncio.sleep(0)
    process.finished()
    process.finished()
    assert await asyncio.wait_for(waiting, 5)


def test_a_correction_forgets_what_was_fetched() -> None:
    """After the broker moved the queue, commits go on from where it said, late ends or not."""
    process = ProcessQueue(5)
    late = message(5)
    process.put([late, message(6)], 7)
    process.correct(100)
    process.done(late)
    assert process.committable == 100
    assert process.statistics().next_offset == 100


def test_done_twice_counts_once() -> None:
    """What the cleaner has given back may still end in its handler."""
    process = ProcessQueue(0)
    batch = [message(offset) for offset in range(3)]
    process.put(batch, 3)
    assert all(process.holds(each) for each in batch)
    process.done(batch[0])
    process.done(batch[0])
    assert (process.count, process.bytes, process.committable) == (2, 10, 1)
    assert [process.holds(each) for each in batch] == [False, True, True]
    process.done(batch[1])
    process.done(batch[2])
    assert (process.count, process.bytes, process.committable) == (0, 0, 3)
    assert not process.holds(batch[2])


def test_statistics_tell_the_range() -> None:
    """Oldest and newest offset not done, where there are some."""
    process = ProcessQueue(7)
    state = process.statistics()
    assert (state.oldest_offset, state.newest_offset, state.next_offset) == (None, None, 7)
    process.put([message(9), message(12)], 20)
    state = process.statistics()
    assert (state.oldest_offset, state.newest_offset, state.next_offset) == (9, 12, 20)
    assert (state.messages, state.bytes, state.dropped) == (2, 10, False)
