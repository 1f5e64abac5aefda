"""Batches that are one record: after any end of the store each message is at its offset."""

import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.disks.logs import (
    NOW_MS,
    ForgetfulFiles,
    hosts,
    opened,
    other_problems,
    settle,
    small,
)
from support.runs.kill_rounds import ROUNDS, drawn

from aerobee.broker.features.batch_queues.following import UnitFollower
from aerobee.remoting.codes import SysFlag
from aerobee.remoting.message.batch import BatchedMessage, encode_batch, split_batch
from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.remoting.message.record import iter_records
from aerobee.storage.disk.replacing import replace_file
from aerobee.storage.recovery.batch_units import unit_files
from aerobee.storage.recovery.batch_units.unit_files import UnitFiles
from aerobee.storage.recovery.batch_units.units import UNIT_BYTES
from aerobee.storage.settings import SYNC_FLUSH, StoreSettings
from aerobee.storage.store import MessageStore

TOPIC = "together"
TABLE = b'{"topicConfigTable":{"together":{"attributes":{"queue.type":"BatchCQ"}}}}'
FLAGS = SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH


@pytest.fixture(autouse=True)
def small_unit_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let units have many files."""
    monkeypatch.setattr(unit_files, "UNIT_FILE_BYTES", 20 * UNIT_BYTES)


class Batches:
    """Sends batches and single messages at random; knows what the disk has acknowledged."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.counts: Iterator[int] = iter(lambda: chance.choice((1, 1, 2, 7, 200)), None)
        self.sent: dict[int, list[bytes]] = defaultdict(list)
        self.acknowledged: dict[int, set[int]] = defaultdict(set)
        self.number = 0

    def run(self, store: MessageStore, steps: int) -> None:
        """Do random things to a SYNC_FLUSH store, whose units follow now and then."""
        followers: dict[int, UnitFollower] = {}
        for _ in range(steps):
            ends = defaultdict(int, {queue_id: len(sent) for queue_id, sent in self.sent.items()})
            for _ in range(self.chance.randint(1, 4)):
                self._send(store, self.chance.randint(0, 1))
            store.commit_log.commit()
            fresh = {
                queue_id: range(ends[queue_id], len(sent)) for queue_id, sent in self.sent.items()
            }

            def done(ok: bool, fresh: dict[int, range] = fresh) -> None:
                if ok:
                    for queue_id, offsets in fresh.items():
                        self.acknowledged[queue_id] |= set(offsets)

            store.flusher.request(store.commit_log.committed, done)
            if self.chance.random() < 0.6:
                store.poll()
            if self.chance.random() < 0.2:
                store._queues_flushed_at = 0.0
                store.tick()
            for queue_id in self.sent:
                if self.chance.random() < 0.3:
                    queue = store.queue(TOPIC, queue_id)
                    follower = followers.setdefault(queue_id, UnitFollower(store, queue))
                    follower.write(*follower.collect())

    def _send(self, store: MessageStore, queue_id: int) -> None:
        queue, log = store.queue(TOPIC, queue_id), store.commit_log
        count = next(self.counts)
        bodies = [b"%d" % (self.number + n) for n in range(count)]
        self.number += count
        self.sent[queue_id] += bodies
        if count == 1:
            log.append(queue, 0, 0, NOW_MS, hosts(NOW_MS), bodies[0], b"", 0)
            return
        body = encode_batch(BatchedMessage(0, each, b"") for each in bodies)
        properties = f"INNER_NUM\x01{count}\x02INNER_BASE\x01{queue.max_offset}\x02".encode()
        position = log.append(queue, 0, FLAGS, NOW_MS, hosts(NOW_MS), body, properties, 0)
        queue.add_alike(count - 1, position, log.position - position, 0)

    def check(self, store: MessageStore) -> None:
        """See all that was acknowledged, each at its offset, and nothing twice.

        A hole in what was never synced takes its own messages, and none behind it.
        """
        for queue_id, sent in self.sent.items():
            queue = store.find_queue(TOPIC, queue_id)
            end = queue.max_offset if queue is not None else 0
            found: dict[int, bytes] = {}
            offset = 0
            while offset < end:
                result = store.read(queue, offset, 32, 1 << 20)
                for part in result.parts:
                    for record in iter_records(bytes(part)):
                        inner = record.sys_flag & SysFlag.INNER_BATCH
                        bodies = [record.body]
                        if inner:
                            bodies = [each.body for each in split_batch(record.body)]
                        assert record.queue_offset not in found
                        found.update(enumerate(bodies, record.queue_offset))
                assert result.next_offset > offset
                offset = result.next_offset
            assert found == {offset: sent[offset] for offset in found}
            assert self.acknowledged[queue_id] <= found.keys()
            del sent[end:]
            self.acknowledged[queue_id] = set(found)


def begun(root: Path) -> tuple[StoreSettings, ForgetfulFiles]:
    """A disk with the broker's table, which is there before a topic's first message is."""
    settings = small(root, flush_mode=SYNC_FLUSH)
    files = ForgetfulFiles()
    files.make_directory(root / "config")
    replace_file(files, root / "config/topics.json", TABLE)
    return settings, files


@pytest.mark.parametrize("_", range(2 * ROUNDS))
def test_a_machine_crash_loses_no_batch_that_was_synced(tmp_path: Path, _: int) -> None:
    """Lives on a disk that forgets and tears what was not synced, at times without our files."""
    live(tmp_path, drawn())


@pytest.mark.parametrize("seed", [1_060, 399_072])
def test_a_queue_that_is_cut_within_what_is_written_again(tmp_path: Path, seed: int) -> None:
    """A batch stands behind one whose entries are lost, and before where the queue seems to end.

    The start could not write where it went on, or gave out a batch twice.
    """
    live(tmp_path, random.Random(seed))


@pytest.mark.parametrize("seed", [2_091, 2_141])
def test_what_follows_a_lost_batch_of_which_some_entries_are_left(
    tmp_path: Path, seed: int
) -> None:
    """Nobody knows how many messages it had: the record behind it has an offset far ahead."""
    live(tmp_path, random.Random(seed))


def test_a_queue_does_not_go_on_behind_blanks_that_stand_for_no_message(tmp_path: Path) -> None:
    """Its first files were lost, and its last one led behind the log's end."""
    live(tmp_path, random.Random(2_589))


def test_a_queue_whose_last_files_are_empty_keeps_what_is_there(tmp_path: Path) -> None:
    """A record in a hole was taken for a new life of the topic: all behind it was forgotten."""
    live(tmp_path, random.Random(2_611))


def live(tmp_path: Path, chance: random.Random) -> None:
    """Three lives, each ended by a loss of power."""
    settings, files = begun(tmp_path)
    batches = Batches(chance)
    for life in range(3):
        store = opened(settings, files)
        batches.check(store)
        settle(store)
        batches.run(store, chance.randint(0, 20))
        store.abandon()
        files = files.crash(tmp_path, chance)
        if life == 1 and chance.random() < 0.3:
            for name in ("aerobee.progress", "aerobee.written", "checkpoint"):
                files.remove(tmp_path / name)
    store = opened(settings, files)
    batches.check(store)
    for queue_id in batches.sent:
        queue = store.queue(TOPIC, queue_id)
        queue.write_out()  # as a round does: units go no further than that
        follower = UnitFollower(store, queue)
        while follower.behind:
            follower.write(*follower.collect())
    store.close()
    assert not other_problems(settings)
    for queue_id in batches.sent:
        units = [unit for _, unit in UnitFiles(files, tmp_path, TOPIC, queue_id).read()]
        covered = {offset for unit in units for offset in range(unit.first_offset, unit.end)}
        assert batches.acknowledged[queue_id] <= covered


@pytest.mark.parametrize("_", range(ROUNDS))
def test_a_killed_process_loses_nothing(tmp_path: Path, _: int) -> None:
    """What was committed is there, though no round has written its entries."""
    chance = drawn()
    settings, files = begun(tmp_path)
    batches = Batches(chance)
    for _ in range(3):
        store = opened(settings, files)
        before = {queue_id: len(sent) for queue_id, sent in batches.sent.items()}
        batches.check(store)
        assert {queue_id: len(sent) for queue_id, sent in batches.sent.items()} == before
        batches.run(store, chance.randint(1, 20))
        store.abandon()
    store = opened(settings, files)
    batches.check(store)
    store.close()
    assert not other_problems(settings)


def test_entries_lost_in_the_middle_of_a_batch_are_written_again(tmp_path: Path) -> None:
    """The first and the last one are there: that says nothing of those between."""
    settings, _ = begun(tmp_path)
    batches = Batches(random.Random(1))
    batches.counts = iter((200, 200))
    store = opened(settings)
    batches._send(store, 0)
    batches._send(store, 0)
    store.commit_log.commit()
    store.close()
    for name in ("aerobee.progress", "aerobee.written", "checkpoint"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "abort").touch()
    entries = sorted((tmp_path / "aerobee.batches" / TOPIC / "0").iterdir())
    assert len(entries) >= 4, "a batch has entries in several files"
    entries[1].write_bytes(bytes(entries[1].stat().st_size))
    store = opened(settings)
    queue = store.queue(TOPIC, 0)
    for first in (0, 200):
        assert len({queue.place_of(offset) for offset in range(first, first + 200)}) == 1
    batches.check(store)
    store.close()
    assert not other_problems(settings)


def test_messages_between_lost_ones_have_units(tmp_path: Path) -> None:
    """Blank entries are alike, wherever they are: the step from one to the other hides none."""
    settings, _ = begun(tmp_path)
    store = opened(settings)
    queue = store.queue(TOPIC, 0)
    for _ in range(30):
        store.commit_log.append(queue, 0, 0, NOW_MS, hosts(NOW_MS), b"x", b"", 0)
    store.commit_log.commit()
    lost = {*range(5, 10), *range(12, 26)}
    for offset in lost:
        queue.put(offset, 0, BLANK_SIZE, 0)
    queue.write_out()
    follower = UnitFollower(store, queue)
    while follower.behind:  # a turn takes 5 ms at most, in which a busy machine does less
        follower.write(*follower.collect())
    units = [unit for _, unit in UnitFiles(store.files, tmp_path, TOPIC, 0).read()]
    assert {unit.first_offset for unit in units} == {*range(30)} - lost
    store.close()


@pytest.mark.parametrize("last", [False, True], ids=["another follows", "the last one"])
def test_a_batch_whose_first_entries_are_lost_is_found(tmp_path: Path, last: bool) -> None:
    """Its offset lies before where the queue seems to end, and the next one far behind that."""
    settings, _ = begun(tmp_path)
    batches = Batches(random.Random(1))
    batches.counts = iter([*[1] * 46, 200, *([] if last else [1])])
    store = opened(settings)
    for _ in range(47 if last else 48):
        batches._send(store, 0)
    store.commit_log.commit()
    store.close()
    sent = [*batches.sent[0]]
    for name in ("aerobee.progress", "aerobee.written", "checkpoint"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "abort").touch()
    files = sorted((tmp_path / "aerobee.batches" / TOPIC / "0").iterdir())
    for path, kept in zip(files, (slice(46), slice(0), slice(50), slice(26, 50)), strict=False):
        rows = [path.read_bytes()[at : at + 20] for at in range(0, 1000, 20)]
        rows = [row if n in range(50)[kept] else bytes(20) for n, row in enumerate(rows)]
        path.write_bytes(b"".join(rows))
    for path in files[4:]:
        path.unlink()
    store = opened(settings)
    batches.check(store)
    assert batches.sent[0] == sent
    assert batches.acknowledged[0] == {*range(len(sent))}
    store.close()
    assert not other_problems(settings)
