"""Compiled copies of records against the Python that defines reads: same result, same bytes."""

import mmap
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.disks.logs import append, opened, small
from support.examples import examples
from support.servers.brokers import pull_command, running_broker, send_command
from support.waiting import until
from support.wire import connect, feed

from aerobee.broker.compiled.choice import is_compiled
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.layout import MAGIC_V1, MAGIC_V2
from aerobee.remoting.message.record import HEAD
from aerobee.remoting.message.tags import java_string_hash
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.reads.misreads import Misreads
from aerobee.storage.reads.reading import Gather, Reader
from aerobee.storage.settings import StoreSettings
from aerobee.storage.store import MessageStore

pytestmark = pytest.mark.skipif(not is_compiled(), reason="built without a compiler")

QUEUES: Final = 3
TAGS: Final = ("", "A", "B", "\u4e2d", "C")
HASHES: Final = [0, *(java_string_hash(tag) for tag in TAGS[1:]), 7, -(2**63), 2**63, 2**70]
THOROUGH: Final = settings(
    max_examples=examples(300),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


def gather() -> Gather:
    """Return the compiled function."""
    from aerobee.broker.compiled.record_runs import gather

    return gather


def filled(root: Path, **changes: Any) -> MessageStore:
    """Return a store whose queues share log files that are far smaller than a read may be."""
    store = opened(small(root, queue_file_entries=700, **changes))
    rng = random.Random(11)
    for _ in range(2500):
        append(
            store,
            queue_id=rng.choice((0, 0, 0, 1, 1, 2)),
            body=bytes(rng.choice((1, 20, 100, 900))),
            tags=rng.choice(TAGS),
        )
        store.commit_log.commit()
        store.poll()
    return store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> MessageStore:
    """A store of many log files, the oldest of which are gone."""
    store = filled(tmp_path_factory.mktemp("reads"))
    for _ in range(5):
        store.segments.drop_first()
    return store


def both(
    reader: Reader,
    queue: ConsumeQueue,
    offset: int,
    messages_max: int,
    bytes_max: int,
    wanted: frozenset[int] | None,
) -> Iterator[dict[str, Any]]:
    """Yield what Python reads and what it reads with compiled copies."""
    for way in (None, gather()):
        result = reader.read(queue, offset, messages_max, bytes_max, wanted, gather=way)
        yield {
            "status": result.status,
            "offsets": (result.next_offset, result.min_offset, result.max_offset),
            "counts": (result.count, result.bytes),
            "records": b"".join(result.parts),
        }


@THOROUGH
@given(
    queue_id=st.integers(0, QUEUES - 1),
    offset=st.integers(0, 1500),
    messages_max=st.one_of(st.integers(-1, 40), st.sampled_from([255, 256, 257, 800, 10**6])),
    bytes_max=st.one_of(st.integers(-1, 5000), st.sampled_from([20_000, 1 << 20, 2**31])),
    wanted=st.one_of(st.none(), st.frozensets(st.sampled_from(HASHES), max_size=4)),
    limits=st.fixed_dictionaries(
        {
            "transfer_count_memory": st.sampled_from([1, 32, 1000]),
            "transfer_bytes_memory": st.sampled_from([100, 256 << 10]),
            "transfer_count_disk": st.sampled_from([8, 1000]),
            "filter_scan_bytes": st.sampled_from([20, 400, 16_000]),
            "memory_ratio": st.sampled_from([0.01, 0.4]),
        }
    ),
)
def test_compiled_and_python_read_the_same(
    store: MessageStore,
    queue_id: int,
    offset: int,
    messages_max: int,
    bytes_max: int,
    wanted: frozenset[int] | None,
    limits: dict[str, Any],
) -> None:
    """For any place, limit and filter, across files of the log and of the queue."""
    changed = StoreSettings(**(vars_of(store.settings) | limits))
    reader = Reader(store.commit_log, changed, memory_bytes=1_000_000)
    queue = store.queue("orders", queue_id)
    python, compiled = both(reader, queue, offset, messages_max, bytes_max, wanted)
    assert compiled == python


def vars_of(settings: StoreSettings) -> dict[str, Any]:
    """Return a store's settings by name."""
    return {name: getattr(settings, name) for name in StoreSettings.__struct_fields__}


@pytest.mark.parametrize("wanted", [None, frozenset(HASHES[:5]), frozenset({HASHES[1]})])
def test_what_lies_in_one_file_is_not_declined(
    tmp_path: Path, wanted: frozenset[int] | None
) -> None:
    """Plain reads, with and without tags, are copied by compiled code."""
    store = filled(tmp_path, segment_bytes=4 << 20)
    entries, at, count = store.queue("orders", 1).run(3, 32)
    file = store.commit_log.file_at(0)
    assert file is not None
    found = gather()(entries, at, count, *file, 32, 1 << 20, wanted, 0)
    assert found is not None
    records, taken, looked = found
    assert looked == 32
    assert taken == 32 if wanted is None or len(wanted) > 1 else 0 < taken < 32
    assert len(records) > taken * 90


def test_damaged_entries_are_read_alike(tmp_path: Path) -> None:
    """Whatever an entry says, nothing is copied that Python would not have returned."""
    store = filled(tmp_path, segment_bytes=64 << 10)
    queue = store.queue("orders", 0)
    end, rng = store.commit_log.position, random.Random(5)
    positions = (0, 1, -1, end, end - 1, end + 1, 64 << 10, (64 << 10) - 50, 2**62, -(2**63))
    sizes = (0, 1, -1, 100, 64 << 10, 2**31 - 1, -(2**31), end)
    file_bytes = len(queue.buffer)
    for _ in range(3000):
        at = rng.randrange(0, file_bytes // 20 // 2) * 20
        number = queue.base + at // 20
        if number >= queue.max_offset:
            continue
        kept = queue.buffer[at : at + 20]
        position, size, tag = struct.unpack(">qiq", kept)
        changed = rng.choice((
            (rng.choice(positions), size, tag), (position, rng.choice(sizes), tag),
            (rng.choice(positions), rng.choice(sizes), rng.choice(HASHES[:5])),
        ))  # fmt: skip
        queue.buffer[at : at + 20] = struct.pack(">qiq", *changed)
        first = max(queue.base, number - rng.choice((0, 0, 1, 5, 40)))
        wish = (first, rng.choice((1, 5, 32)), rng.choice((100, 3000, 1 << 20)),
                rng.choice((None, None, frozenset(HASHES[:2]))))  # fmt: skip
        python, compiled = both(store.reader, queue, *wish)
        assert compiled == python, (changed, wish)
        queue.buffer[at : at + 20] = kept


def test_a_damaged_log_is_read_alike(tmp_path: Path) -> None:
    """Neither gives out what is no record, and both note the same messages."""
    store = filled(tmp_path, segment_bytes=64 << 10)
    queue, rng = store.queue("orders", 0), random.Random(6)
    places = {queue.entry(offset)[:2] for offset in range(queue.max_offset)}
    for _ in range(1500):
        offset = rng.randrange(queue.max_offset)
        position = queue.entry(offset)[0]
        segment = store.segments.find(position)
        assert segment is not None
        at, count = position - segment.base + rng.randrange(40), rng.choice((1, 1, 8, 1000))
        kept = segment.map[at : at + count]
        harm = rng.choice((bytes(len(kept)), rng.randbytes(len(kept))))
        segment.write(segment.base + at, harm)
        first = max(queue.min_offset, offset - rng.choice((0, 0, 1, 5, 40)))
        wish = (first, rng.choice((1, 5, 32)), rng.choice((100, 3000, 1 << 20)),
                rng.choice((None, None, frozenset(HASHES[:2]))))  # fmt: skip
        store.reader.misreads = Misreads()
        python, compiled = both(store.reader, queue, *wish)
        assert compiled == python, (offset, wish)
        data, read_at = python["records"], 0
        while read_at < len(data):
            total, magic, _, _, _, _, own, _, _ = HEAD.unpack_from(data, read_at)
            assert (own, total) in places and magic in (MAGIC_V1, MAGIC_V2)
            read_at += total
        noted = [Misreads(), Misreads()]
        for misreads, way in zip(noted, (None, gather()), strict=True):
            store.reader.misreads = misreads
            store.reader.read(queue, *wish, gather=way)
        assert noted[0].known(store.find_queue) == noted[1].known(store.find_queue)
        segment.write(segment.base + at, kept)


def test_memory_that_is_not_there_is_an_error() -> None:
    """No caller gets bytes from outside of what it hands over."""
    entries, file = mmap.mmap(-1, 4096), memoryview(bytes(4096))
    copied = gather()
    assert copied(entries, 0, 0, file, 0, 4096, 32, 1 << 20, None, 0) == (b"", 0, 0)
    for at, count in ((-1, 1), (0, -1), (0, 205), (4080, 1), (5000, 0), (0, 2**60)):
        with pytest.raises(ValueError, match="queue's memory"):
            copied(entries, at, count, file, 0, 4096, 32, 1 << 20, None, 0)
    for base, end in ((-1, 100), (0, 4097), (100, 5000)):
        with pytest.raises(ValueError, match="log's memory"):
            copied(entries, 0, 1, file, base, end, 32, 1 << 20, None, 0)
    assert copied(entries, 0, 1, file, 4096, 100, 32, 1 << 20, None, 0) is None


async def test_a_broker_answers_pulls_alike_whichever_code_reads(tmp_path: Path) -> None:
    """The setting takes effect at once, and the reply is the same to the byte."""
    send, pull = encode_frame(send_command(body=b"x" * 300)), encode_frame(pull_command(0))
    async with running_broker(tmp_path, compiledFastPath="true") as broker:
        connection, wire = connect(broker)
        connection.data_received(send)
        await until(wire.replies, what="the topic is known")
        await feed(*connect(broker), [send * 40])
        answers = set()
        for wanted in (True, False):
            broker.live.change(broker.settings.model_copy(update={"compiled_fast_path": wanted}))
            assert (broker.context.pulls.server._gather is not None) is wanted
            connection, wire = connect(broker)
            await feed(connection, wire, [pull])
            (reply,) = wire.replies()
            assert reply.code == ResponseCode.SUCCESS
            assert len(reply.body) > 32 * 300
            answers.add(bytes(wire.written))
        assert len(answers) == 1
