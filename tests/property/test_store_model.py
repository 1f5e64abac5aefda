"""The store against a model of lists: whatever happens in any order, it holds what was sent."""

import shutil
import tempfile
from collections import defaultdict
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.disks.logs import append, bodies, opened, settle, small, write_queues

from aerobee.remoting.message.record import iter_records
from aerobee.storage.verify import verify

QUEUES = st.tuples(st.sampled_from(["a", "b" * 130]), st.integers(0, 1))


class StoreModel(RuleBasedStateMachine):
    """Appends, commits, reads, reopens, kills; the model is a list of bodies per queue."""

    @initialize(sync=st.booleans(), entries=st.sampled_from([3, 7, 50]))
    def start(self, sync: bool, entries: int) -> None:
        """Make an empty store of very small files."""
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.settings = small(
            self.root, segment_bytes=4096, queue_file_entries=entries, window_bytes=4096,
            first_window_bytes=4096, flush_mode="SYNC_FLUSH" if sync else "ASYNC_FLUSH",
        )  # fmt: skip
        self.store = opened(self.settings)
        self.committed: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        self.pending: list[tuple[tuple[str, int], bytes]] = []
        self.number = 0

    @rule(queue=QUEUES, size=st.integers(0, 1500), count=st.integers(1, 4))
    def append(self, queue: tuple[str, int], size: int, count: int) -> None:
        """Append some messages without committing them; rolling a file commits."""
        for _ in range(count):
            body = b"%d:" % self.number + bytes(size)
            self.number += 1
            append(self.store, *queue, body=body, tags=f"t{self.number % 3}")
            self.pending.append((queue, body))

    @rule()
    def commit(self) -> None:
        """Commit what was appended."""
        self.store.commit_log.commit()
        self.store.poll()
        for queue, body in self.pending:
            self.committed[queue].append(body)
        self.pending.clear()

    @rule()
    def flush(self) -> None:
        """Flush and write checkpoints."""
        self.commit()
        settle(self.store)

    @rule(clean=st.booleans(), written=st.booleans(), note=st.booleans(), progress=st.booleans())
    def reopen(self, clean: bool, written: bool, note: bool, progress: bool) -> None:
        """Stop or kill the store, perhaps lose our notes, and open it again."""
        self.commit()
        if clean:
            self.store.close()
        else:
            if written:  # by a round that was killed then
                write_queues(self.store)
            self.store.abandon()
        if not note:
            (self.root / "aerobee.written").unlink(missing_ok=True)
        if not progress:
            (self.root / "aerobee.progress").unlink(missing_ok=True)
        assert not (clean or written) or not verify(self.settings).problems
        self.store = opened(self.settings)

    @rule(queue=QUEUES)
    def lose_queue(self, queue: tuple[str, int]) -> None:
        """Stop with everything noted, and lose the files of one queue."""
        self.commit()
        self.store.close()
        shutil.rmtree(self.root / "consumequeue" / queue[0] / str(queue[1]), ignore_errors=True)
        self.store = opened(self.settings)

    @rule(queue=QUEUES, at=st.integers(0, 40), count=st.integers(1, 40))
    def read(self, queue: tuple[str, int], at: int, count: int) -> None:
        """A read gives a run of what the model has."""
        self.commit()
        expected = self.committed[queue]
        result = self.store.read(self.store.find_queue(*queue), at, count, 1 << 20)
        found = [record.body for record in iter_records(b"".join(result.parts))]
        assert found == expected[at : at + len(found)]
        assert bool(found) == (at < len(expected))
        if found:
            assert result.next_offset == at + len(found)

    @invariant()
    def offsets_are_dense(self) -> None:
        """Each queue knows of as many messages as were appended to it."""
        if not hasattr(self, "store"):
            return
        for queue, expected in self.committed.items():
            waiting = sum(1 for other, _ in self.pending if other == queue)
            assert self.store.queue(*queue).max_offset == len(expected) + waiting

    def teardown(self) -> None:
        """The end: everything is there and verified."""
        if not hasattr(self, "store"):
            return
        self.commit()
        for queue, expected in self.committed.items():
            assert bodies(self.store, *queue) == expected
        self.store.close()
        assert not verify(self.settings).problems
        self.folder.cleanup()


TestStoreModel = StoreModel.TestCase
TestStoreModel.settings = settings(
    max_examples=25,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
