"""Streams whose driver dies at any point, beside whoever writes: each message once."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.lake.fake_spark import CRASHES, Checkpoint, Crash, offsets, reader_of, run

from aerobee.spark.at_rest.stores import find_stores, has_queues
from aerobee.storage.settings import StoreSettings
from aerobee.storage.store import MessageStore

HOSTS = bytes([127, 0, 0, 1, 0, 0, 0, 9]) + (10**12).to_bytes(8, "big")
HOSTS += bytes([127, 0, 0, 1, 0, 0, 0, 9]) + bytes(12)


WRITER = """
import sys, time
from pathlib import Path
from aerobee.storage.settings import StoreSettings
from aerobee.storage.store import MessageStore

store = MessageStore(StoreSettings(Path(sys.argv[1]), segment_bytes=1 << 18, helper_process=False))
store.open()
print("open", flush=True)
hosts = bytes.fromhex(sys.argv[2])
queues = [store.queue("orders", number) for number in range(3)]
for number in range(10**9):
    body = b"%d:" % number + bytes([number % 255 + 1]) * (number * 37 % 1000)
    store.commit_log.append(queues[number % 3], 0, 0, 5, hosts, body, b"TAGS\\x01a", 7)
    if number % 50 == 49:
        store.commit_log.commit()
        store.poll()
        store.tick()
        time.sleep(0.002)  # some 10 MB/s: the reader must not fall behind for good
"""


class Live:
    """A broker's store that is open and written to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        settings = StoreSettings(
            root, segment_bytes=1 << 14, queue_file_entries=100, helper_process=False
        )
        self.store = MessageStore(settings)
        self.store.open()
        self._number = 0

    def add(self, count: int, queues: int) -> None:
        """Write some messages."""
        for _ in range(count):
            self._number += 1
            queue = self.store.queue("orders", self._number % queues)
            body = b"b" * (self._number * 31 % 200 + 1)
            self.store.commit_log.append(queue, 0, 0, 5, HOSTS, body, b"TAGS\x01a\x02", 7)
        self.store.commit_log.commit()
        for queue in self.store.queues:  # as the next round does
            queue.write_out()
        self.store.poll()

    def ends(self) -> dict[tuple[str, int], int]:
        """How many messages each queue has."""
        queues = [self.store.queue("orders", number) for number in range(6)]
        return {("orders", each.queue_id): each.max_offset for each in queues if each.max_offset}


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    """A store that is written to."""
    live = Live(tmp_path / "s")
    yield live
    live.store.close()


def test_messages_that_come_while_a_query_starts_are_not_lost_by_a_kill(live: Live) -> None:
    """Nothing is read before it is written down where the query starts."""
    live.add(9, queues=3)
    checkpoint = Checkpoint()

    def crash(name: str) -> bool:
        live.add(3, queues=3)
        return name == "planned"

    with pytest.raises(Crash):
        run(reader_of(live.root), checkpoint, crash=crash)
    run(reader_of(live.root), checkpoint)
    assert offsets(checkpoint) == {("orders", number): [3, 4] for number in range(3)}


def test_stream_beside_a_writing_process_sees_whole_messages_once(tmp_path: Path) -> None:
    """Look after look into files that another process is writing at that moment."""
    command = [sys.executable, "-c", WRITER, str(tmp_path / "s"), HOSTS.hex()]
    checkpoint = Checkpoint()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout is not None and writer.stdout.readline() == b"open\n"
            while len(checkpoint.rows()) < 5000 or checkpoint.commits < 10:
                reader = reader_of(tmp_path / "s", startingOffsets="earliest")
                run(reader, checkpoint, batches_max=20)
        finally:
            writer.kill()
    rows = checkpoint.rows()
    for row in rows:
        number = row["queue_offset"] * 3 + row["queue_id"]
        assert row["body"] == b"%d:" % number + bytes([number % 255 + 1]) * (number * 37 % 1000)
    for queue_id in range(3):
        found = [row["queue_offset"] for row in rows if row["queue_id"] == queue_id]
        assert found == list(range(len(found))), "in order, without gaps, each once"


def test_who_finds_a_store_before_its_first_message_does_not_take_it_for_one_without_queues(
    live: Live,
) -> None:
    """The store is found, then looked at; in between the broker may store its first message."""
    (found,) = find_stores(str(live.root))
    live.add(1, queues=1)
    assert has_queues(found)


@pytest.mark.parametrize("seed", range(8))
def test_kills_at_any_point_lose_and_repeat_nothing(live: Live, seed: int) -> None:
    """While messages and queues come, limits vary, and the driver dies between any two steps."""
    dice = random.Random(seed)
    start = dice.choice(["earliest", "latest"])
    live.add(dice.randrange(40), queues=3)
    checkpoint = Checkpoint()
    deaths: Counter[str] = Counter()

    def crash(name: str) -> bool:
        live.add(dice.randrange(4) * dice.randrange(2), queues=dice.randrange(1, 5))
        if dice.random() < 0.2:
            deaths[name] += 1
            return True
        return False

    for _ in range(40):
        limits: dict[str, str] = {}
        if dice.random() < 0.7:
            limits["maxOffsetsPerTrigger"] = str(dice.randrange(1, 30))
        if dice.random() < 0.3:
            limits["maxBytesPerTrigger"] = str(dice.randrange(100, 3000))
        reader = reader_of(live.root, startingOffsets=start, **limits)
        if dice.random() < 0.3:
            reader.prepareForTriggerAvailableNow()
        with suppress(Crash):
            run(reader, checkpoint, batches_max=dice.randrange(1, 5), crash=crash)
        live.add(dice.randrange(12), queues=dice.randrange(1, 7))
    run(reader_of(live.root, startingOffsets=start), checkpoint)
    first: dict[str, int] = {}
    if start == "latest":
        first = json.loads(checkpoint.offsets[0]).get("orders", {})
    expected = {
        key: list(range(first.get(f"s:{key[1]}", 0), end)) for key, end in live.ends().items()
    }
    assert offsets(checkpoint) == {key: each for key, each in expected.items() if each}
    assert set(deaths) == set(CRASHES)
