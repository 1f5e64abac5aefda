"""Whatever ends the store, every acknowledged message is there afterwards, at its offset."""

import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from support.disks.logs import (
    ForgetfulFiles,
    append,
    bodies,
    opened,
    other_problems,
    read_all,
    send,
    settle,
    small,
    write_queues,
)
from support.runs.kill_rounds import ROUNDS, drawn

from aerobee.storage.settings import SYNC_FLUSH
from aerobee.storage.store import MessageStore
from aerobee.storage.verify import verify

Queue = tuple[str, int]


class Writer:
    """Sends at random and knows what was acknowledged, by the disk or by the process."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.sent: dict[Queue, list[bytes]] = defaultdict(list)
        self.acknowledged: dict[Queue, set[int]] = defaultdict(set)
        self.number = 0

    def run(self, store: MessageStore, steps: int) -> None:
        """Do random things to a SYNC_FLUSH store."""
        for _ in range(steps):
            fresh: dict[Queue, set[int]] = defaultdict(set)
            for _ in range(self.chance.randint(1, 6)):
                key = (f"topic{self.chance.randint(0, 2)}", self.chance.randint(0, 1))
                body = b"%d:" % self.number + bytes(self.chance.choice((0, 10, 700, 3000)))
                self.number += 1
                append(store, *key, body=body)
                fresh[key].add(len(self.sent[key]))
                self.sent[key].append(body)
            store.commit_log.commit()
            self._request(store, fresh)
            if self.chance.random() < 0.6:
                store.poll()
            if self.chance.random() < 0.2:
                store._queues_flushed_at = 0.0
                store.tick()

    def _request(self, store: MessageStore, fresh: dict[Queue, set[int]]) -> None:
        def done(ok: bool) -> None:
            if ok:
                for key, offsets in fresh.items():
                    self.acknowledged[key] |= offsets

        store.flusher.request(store.commit_log.committed, done)

    def check(self, store: MessageStore) -> None:
        """Everything acknowledged is at its offset; what else is there was sent there, too.

        A hole in what was never synced takes its own messages, and none behind it.
        """
        for key, sent in self.sent.items():
            found = {record.queue_offset: record.body for record in read_all(store, *key)}
            assert found == {offset: sent[offset] for offset in found}, key
            assert self.acknowledged[key] <= found.keys(), key
            queue = store.find_queue(*key)
            del sent[queue.max_offset if queue is not None else 0 :]
            self.acknowledged[key] = set(found)  # recovery has found it and made it durable later


@pytest.mark.parametrize("_", range(7 * ROUNDS))
def test_a_machine_crash_loses_nothing_that_was_synced(tmp_path: Path, _: int) -> None:
    """Three lives with SYNC_FLUSH on a disk that forgets and tears what was not synced."""
    chance = drawn()
    settings = small(tmp_path, flush_mode=SYNC_FLUSH)
    files, writer = ForgetfulFiles(), Writer(chance)
    for _ in range(3):
        store = opened(settings, files)
        writer.check(store)
        settle(store)
        writer.run(store, chance.randint(0, 25))
        store.abandon()
        files = files.crash(tmp_path, chance)
    store = opened(settings, files)
    writer.check(store)
    store.close()
    assert not other_problems(settings)


@pytest.mark.parametrize("_", range(2 * ROUNDS))
def test_a_crash_while_nothing_of_ours_is_left(tmp_path: Path, _: int) -> None:
    """The same without our own notes: RocketMQ's rules alone find every synced message."""
    chance = drawn()
    settings = small(tmp_path, flush_mode=SYNC_FLUSH)
    files, writer = ForgetfulFiles(), Writer(chance)
    store = opened(settings, files)
    writer.run(store, 30)
    store.abandon()
    files = files.crash(tmp_path, chance)
    for name in ("aerobee.progress", "aerobee.written", "checkpoint"):
        files.remove(tmp_path / name)
    store = opened(settings, files)
    writer.check(store)
    store.close()
    assert not other_problems(settings)


WRITE_UNTIL_KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from support.disks.logs import append, opened, small
from aerobee.storage.settings import SYNC_FLUSH
number, offsets = int(sys.argv[3]), {}
store = opened(small(Path(sys.argv[1]), segment_bytes=1 << 20, queue_file_entries=3000,
                     window_bytes=1 << 18, first_window_bytes=1 << 18))
print("open", store.recovered.proof, flush=True)
while True:
    for _ in range(20):
        queue_id = number % 3
        append(store, "orders", queue_id, body=b"%d " % number + bytes(number % 900))
        offsets[queue_id] = store.queue("orders", queue_id).max_offset
        number += 1
    store.commit_log.commit()
    print(number, *offsets.values(), flush=True)
    store.poll()
    if number % 400 == 0:
        store.tick()
"""


def run_until_killed(root: Path, first: int, seconds: float) -> tuple[str, list[int]]:
    """Write in a process, kill it; return how it recovered and what it acknowledged last."""
    tests = Path(__file__).parent.parent
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE_UNTIL_KILLED, str(root), str(tests), str(first)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    opened_line = process.stdout.readline()
    assert opened_line.startswith("open"), "the writer did not start"
    time.sleep(seconds)  # the moment of death is what chance decides here
    process.send_signal(signal.SIGKILL)
    last = [line for line in process.stdout.read().splitlines() if line.count(" ") == 3][-1:]
    process.wait()
    return opened_line, [int(word) for word in last[0].split()] if last else []


@pytest.mark.parametrize("_", range(max(1, ROUNDS // 5)))
def test_a_killed_process_loses_nothing_that_was_committed(tmp_path: Path, _: int) -> None:
    """SIGKILL at random moments, again and again on the same store."""
    chance, first = drawn(), 0
    settings = small(
        tmp_path, segment_bytes=1 << 20, queue_file_entries=3000, window_bytes=1 << 18,
        first_window_bytes=1 << 18,
    )  # fmt: skip
    for round_number in range(5):
        line, last = run_until_killed(tmp_path, first, chance.uniform(0.02, 0.3))
        if round_number:
            assert "flushed" in line, "the last checkpoint is what recovery starts from"
        found: list[Any] = []
        store = opened(settings)
        assert store.recovered.proof in ("synced", "flushed")
        for queue_id in range(3):
            found += bodies(store, "orders", queue_id)
        numbers = sorted(int(body.split(b" ")[0]) for body in found)
        assert numbers == list(range(len(numbers))), "nothing is missing, nothing is there twice"
        assert not last or len(numbers) >= last[0]
        first = len(numbers)
        if round_number % 2:
            store.close()
        else:
            write_queues(store)
            store.abandon()
        assert not verify(settings).problems


def test_a_torn_record_at_the_end_is_forgotten(tmp_path: Path) -> None:
    """A record of which the disk has the first half only: it, and its queue entry, go."""
    settings = small(tmp_path)
    store = opened(settings)
    send(store, body=b"first")
    position = send(store, body=b"second")
    store.abandon()
    (tmp_path / "aerobee.written").unlink()
    path = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[position + 60 : position + 200] = bytes(140)
    path.write_bytes(data)
    store = opened(settings)
    assert bodies(store) == [b"first"]
    assert store.recovered.position == position
    send(store, body=b"third")
    assert bodies(store) == [b"first", b"third"]
    store.close()
    assert not verify(settings).problems
