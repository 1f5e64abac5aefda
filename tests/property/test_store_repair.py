"""A store that was broken in any way is mended: the verifier is content, nothing sound is gone."""

import shutil
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st
from support.disks.logs import opened, send, small
from support.examples import examples

from aerobee.remoting.message.record import decode_record
from aerobee.storage import repair
from aerobee.storage.disk.files import Files
from aerobee.storage.errors import StoreError
from aerobee.storage.log.scan import LogScan
from aerobee.storage.log.segments import Segments
from aerobee.storage.settings import StoreSettings
from aerobee.storage.verify import verify

SEGMENT = 8192
COUNT = 120
LOGS = tuple(f"commitlog/{number * SEGMENT:020d}" for number in range(3))
QUEUES = tuple(f"consumequeue/orders/{queue}/{base:020d}" for queue in (0, 1) for base in (0, 1000))
NOTES = ("checkpoint", "aerobee.progress", "aerobee.written", "abort")
BYTES = st.one_of(
    st.binary(min_size=1, max_size=24),
    st.sampled_from(
        [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", bytes(600), b"\xcb\xd4\x31\x94",
         b"\xda\xa3\x20\xa7", b"\x00\x00\x00\x5b", b"\x80" + bytes(7)]
    ),
)  # fmt: skip
AT_ONCE, NOTHING = st.just(0), st.just(b"")
BREAKAGE = st.one_of(
    st.tuples(st.just("edit"), st.sampled_from(LOGS), st.integers(0, SEGMENT - 1), BYTES),
    st.tuples(st.just("edit"), st.sampled_from(QUEUES), st.integers(0, 1000), BYTES),
    st.tuples(st.just("edit"), st.sampled_from(NOTES), st.integers(0, 120), BYTES),
    st.tuples(st.just("lose"), st.sampled_from(LOGS[1:] + QUEUES + NOTES), AT_ONCE, NOTHING),
    st.tuples(st.just("cut"), st.sampled_from(LOGS[1:] + QUEUES), st.integers(1, 900), NOTHING),
)  # fmt: skip


def configured(root: Path) -> StoreSettings:
    """Small files, several of each kind."""
    return small(root, segment_bytes=SEGMENT)


def template(root: Path) -> None:
    """A small clean store of several log and queue files."""
    store = opened(configured(root))
    for number in range(COUNT):
        send(store, queue_id=number % 2, body=b"%d" % number + bytes(70), tags=f"t{number % 3}")
        store.poll()
    store.close()


FOLDER = tempfile.TemporaryDirectory()  # gone when the interpreter ends
TEMPLATE = Path(FOLDER.name)
template(TEMPLATE)


def records(root: Path) -> dict[int, bytes]:
    """Every sound record of a log by its position."""
    segments = Segments(Files(), root / "commitlog", SEGMENT, write=False)
    segments.load()
    found = {each.position: each.buffer[each.at : each.at + each.size]
             for each in LogScan(segments, segments.begin)}  # fmt: skip
    segments.close()
    return found


SOUND = records(TEMPLATE)


def at(root: Path, position: int, count: int) -> bytes:
    """Bytes of the log as they lie there."""
    path = root / "commitlog" / f"{position // SEGMENT * SEGMENT:020d}"
    data = path.read_bytes() if path.exists() else b""
    return data[position % SEGMENT : position % SEGMENT + count]


def broken(root: Path, breakages: list[tuple[str, str, int, bytes]]) -> None:
    """Do to the files what the test has drawn."""
    for what, name, place, data in breakages:
        path = root / name
        if what == "lose":
            path.unlink(missing_ok=True)
        elif path.exists():
            content = bytearray(path.read_bytes())
            if what == "cut":
                del content[place:]
            else:
                content[place : place + len(data)] = data
            path.write_bytes(content[:SEGMENT] if name.startswith("commitlog") else content)
        elif what == "edit":
            path.write_bytes(bytes(place) + data)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(breakages=st.lists(BREAKAGE, min_size=1, max_size=5))
@example(breakages=[("edit", LOGS[0], 4, b"\xcb\xd4\x31\x94")])  # as the blank that closes a file
def test_what_the_verifier_complains_about_is_mended(
    breakages: list[tuple[str, str, int, bytes]],
) -> None:
    """Mended once, the store is clean; sound records are where they were, and are served."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "store"
        shutil.copytree(TEMPLATE, root)
        broken(root, breakages)
        config = configured(root)
        whole = {place for place, data in SOUND.items() if at(root, place, len(data)) == data}
        try:
            complaints = verify(config).problem_count
        except StoreError:
            event("the verifier cannot read it")
            return
        event("problems" if complaints else "clean")
        with redirect_stdout(StringIO()) as out:
            repair.repair(config)
            report = verify(config)
        assert not report.problems, (report.problems, out.getvalue())
        for place in whole:
            assert at(root, place, len(SOUND[place])) == SOUND[place], place
        store = opened(config)
        assert store.damage == ()
        read = served(store)
        for place in whole:
            record = decode_record(SOUND[place])
            assert read.get((record.queue_id, record.queue_offset)) == record.body, place
        store.close()


def served(store) -> dict[tuple[int, int], bytes]:  # type: ignore[no-untyped-def]
    """What a consumer gets, by queue and offset."""
    found = {}
    for queue_id in range(2):
        queue = store.find_queue("orders", queue_id)
        offset = queue.min_offset if queue is not None else 0
        while queue is not None and offset < queue.max_offset:
            result = store.read(queue, offset, 32, 1 << 20)
            for part in result.parts:
                begin = 0
                while begin < len(part):
                    record = decode_record(part, begin)
                    found[record.queue_id, record.queue_offset] = record.body
                    begin += record.total_size
            offset = max(offset + 1, result.next_offset)
    return found
