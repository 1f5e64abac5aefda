"""What seems to be a message and is none: cut properties, entries and files that were left over."""

import shutil
from contextlib import suppress
from pathlib import Path

from support.disks.logs import append, opened, read_all, send, small
from unit.storage.tools.test_repair import DyingFiles, Killed

from aerobee.remoting.message.record import decode_record, iter_records
from aerobee.storage.disk.files import Files
from aerobee.storage.queues.access import QueueAccess
from aerobee.storage.queues.bulk_check import sound_until
from aerobee.storage.queues.consume_queue import ConsumeQueue
from aerobee.storage.recovery.fillers import filler
from aerobee.storage.repair import repair
from aerobee.storage.store import MessageStore
from aerobee.storage.tools.repairing import Repairer
from aerobee.storage.verify import verify

SEGMENT = 16 * 1024
PROPERTIES = b"KEY\x01" + b"v" * 1000 + b"\x02"


def log_file(root: Path, number: int = 0) -> Path:
    """One file of the log."""
    return root / "commitlog" / f"{number * SEGMENT:020d}"


def offsets_served(store: MessageStore) -> list[int]:
    """The offsets at which a consumer of topic t gets a message that can be read."""
    queue, found = store.queue("t", 0), []
    for offset in range(queue.min_offset, queue.max_offset):
        result = store.read(queue, offset, 1, 1 << 20)
        if result.count:
            record = decode_record(bytes(result.parts[0]))
            assert record.queue_offset == offset
            found.append(offset)
    return found


def test_a_record_that_was_cut_in_its_properties_is_lost_for_good(tmp_path: Path) -> None:
    """Its file gets its size back as zeros; a repair fills it, and no entry leads there."""
    settings = small(tmp_path)
    store = opened(settings)
    places = [send(store, "t", body=b"%d" % n, properties=PROPERTIES) for n in range(20)]
    store.close()
    inside = next(n for n, place in enumerate(places) if place >= SEGMENT) - 1
    cut = places[inside] + 501
    data = log_file(tmp_path).read_bytes()
    log_file(tmp_path).write_bytes(data[:cut])
    store = opened(settings)
    sound = [offset for offset in range(20) if offset != inside]
    assert [record.queue_offset for record in read_all(store, "t")] == sound
    store.close()
    repair(settings)
    assert not verify(settings).problems
    store = opened(settings)
    assert offsets_served(store) == sound
    store.close()


def test_properties_that_end_in_zeros_are_not_believed_in_bulk(tmp_path: Path) -> None:
    """No checksum covers them: the columns leave the record to who walks."""
    store = opened(small(tmp_path))
    places = [send(store, "t", properties=PROPERTIES) for _ in range(5)]
    (segment,) = [each for each in store.segments.items if each.base == 0]
    queues = list(store.queues)
    assert sound_until(store.segments, queues, 0)[0] == store.commit_log.committed
    segment.write(places[3] + 600, bytes(places[4] - places[3] - 600))
    assert sound_until(store.segments, queues, 0) == (places[3], 3)
    store.abandon()


def test_an_entry_of_what_is_no_message_is_seen(tmp_path: Path) -> None:
    """Though all records have their entries: one more leads to bytes that were filled."""
    store = opened(small(tmp_path))
    places = [send(store, "t", body=bytes(100)) for _ in range(5)]
    size = places[1] - places[0]
    store.close()
    with log_file(tmp_path).open("r+b") as file:
        file.seek(places[2])
        file.write(filler(places[2], size, 0))
    report = verify(small(tmp_path))
    assert [problem for problem in report.problems if "t-0 offset 2" in problem]
    repair(small(tmp_path))
    report = verify(small(tmp_path))
    assert (report.problem_count, report.entries, report.lost_entries) == (0, 5, 1)


def test_a_file_behind_the_end_of_a_queue_does_not_go_on_there(tmp_path: Path) -> None:
    """A loss of power has taken the end of the file before it, and of the log.

    The file is made anew: else, where what was prepared of it ends, its old entries would follow.
    """
    folder, count = tmp_path / "t" / "0", 20_000
    queue = ConsumeQueue(QueueAccess(Files(), count), folder, "t", 0)
    for offset in range(2 * count):
        queue.put(offset, offset * 100, 100, 0)
    first = queue.spans()[0].path
    queue.close()
    first.write_bytes(first.read_bytes()[: (count - 10) * 20] + bytes(10 * 20))
    queue = ConsumeQueue(QueueAccess(Files(), count), folder, "t", 0)
    queue.load()
    assert queue.max_offset == count - 10
    while queue.max_offset < count + 100:
        queue.put(queue.max_offset, 100 * count + queue.max_offset, 1, 0)
    queue.write_out()
    again = ConsumeQueue(QueueAccess(Files(), count), folder, "t", 0)
    again.load(count - 10)
    assert again.max_offset == queue.max_offset < 2 * count


def test_a_start_removes_what_lies_behind_the_end_of_a_queue(tmp_path: Path) -> None:
    """The queue ends where the log does; the next start finds the same end."""
    settings = small(tmp_path)
    store = opened(settings)
    for number in range(60):
        send(store, "t", body=b"%d" % number)
    store.close()
    folder = tmp_path / "consumequeue" / "t" / "0"
    left = folder / f"{1000:020d}"
    shutil.copy(folder / f"{0:020d}", folder / f"{2000:020d}")
    store = opened(settings)
    assert store.queue("t", 0).max_offset == 60
    store.close()
    assert sorted(path.name for path in folder.iterdir()) == [f"{0:020d}", left.name]


def test_a_start_after_a_repair_that_was_killed_serves_all(tmp_path: Path) -> None:
    """A file of blanks that it has made for a lost one is not taken for lost messages."""
    root = tmp_path / "store"
    store = opened(small(root))
    for number in range(120):
        append(store, "t", body=b"%d" % number)
        store.commit_log.commit()
        store.poll()
    store.close()
    (root / "consumequeue" / "t" / "0" / f"{0:020d}").unlink()
    step, died = 0, True
    while died:
        copy = shutil.copytree(root, tmp_path / f"killed{step}")
        try:
            Repairer(small(copy), DyingFiles(step)).run()
            died = False
        except Killed:
            pass
        store = opened(small(copy))
        assert offsets_served(store) == list(range(120)), step
        store.abandon()
        shutil.rmtree(copy)
        step += 1


def test_a_flipped_size_of_an_entry_hands_out_no_stretch_of_the_log(tmp_path: Path) -> None:
    """The first record of a read is in no limit; it costs its message, as damage does."""
    settings = small(tmp_path, segment_bytes=512 * 1024, message_bytes_max=2000)
    store = opened(settings)
    for number in range(300):
        send(store, "t", body=b"%03d" % number + bytes(900))
        store.poll()
    store.close()
    path = tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[20 * 7 + 9] ^= 2  # 128 KiB more
    path.write_bytes(data)
    store = opened(settings)
    queue = store.queue("t", 0)
    result = store.read(queue, 7, 32, 10_000)
    assert (result.status.value, result.count, result.next_offset) == ("FOUND", 10, 18)
    assert result.bytes < 10_000 + 1000
    assert next(each.queue_offset for each in iter_records(b"".join(result.parts))) == 8
    result = store.read(queue, 7, 1, 100)
    assert (result.status.value, result.count, result.next_offset) == ("MESSAGE_WAS_REMOVING", 0, 8)
    assert store.read(queue, 6, 32, 10_000).bytes < 10_000
    assert store.read(queue, 8, 1, 10_000).count == 1
    store.close()


def test_a_damaged_queue_is_mended_though_the_progress_is_older_than_the_log(
    tmp_path: Path,
) -> None:
    """A loss of power has brought back an old one; retention was faster."""
    settings = small(tmp_path, queue_file_entries=10)
    store = opened(settings)
    send(store, "t", body=b"first")
    store.close()
    old = (tmp_path / "aerobee.progress").read_bytes()
    store = opened(settings)
    for number in range(60):
        send(store, "t", body=b"%d" % number + bytes(900))
        store.poll()
    store.close()
    log_file(tmp_path).unlink()
    store = opened(settings)
    first = store.queue("t", 0).min_offset
    assert first > 0
    store.close()
    (tmp_path / "aerobee.progress").write_bytes(old)
    (tmp_path / "aerobee.written").unlink()
    (tmp_path / "checkpoint").unlink()
    (tmp_path / "abort").touch()
    short = tmp_path / "consumequeue" / "t" / "0" / f"{first // 10 * 200:020d}"
    short.write_bytes(short.read_bytes()[:-50])
    store = opened(settings)
    assert [record.queue_offset for record in read_all(store, "t")] == list(range(first, 61))
    store.close()


def test_a_start_that_is_killed_over_a_short_queue_file_is_done_again(tmp_path: Path) -> None:
    """The file of blanks in its place is not taken for lost messages by the next start."""
    root = tmp_path / "store"
    store = opened(small(root))
    for number in range(180):
        send(store, "t", body=b"%d" % number)
        store.poll()
    store.close()
    short = root / "consumequeue" / "t" / "0" / f"{1000:020d}"
    short.write_bytes(short.read_bytes()[:500])
    for step in range(10, 34):
        copy = shutil.copytree(root, tmp_path / f"killed{step}")
        with suppress(Killed):
            opened(small(copy), DyingFiles(step)).abandon()
        store = opened(small(copy))
        assert offsets_served(store) == list(range(180)), step
        store.abandon()
        shutil.rmtree(copy)
