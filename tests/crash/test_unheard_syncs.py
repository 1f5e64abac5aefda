"""SIGKILL between a failed sync and its report: what the next process of this boot makes of it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.disks.logs import bodies, opened, read_all, send, settle, small

from aerobee.storage.disk.files import Files
from aerobee.storage.layout import DOUBT
from aerobee.storage.proofs.boot_note import BootNote
from aerobee.storage.recovery.recovery import FLUSHED
from aerobee.storage.settings import ASYNC_FLUSH, SYNC_FLUSH
from aerobee.storage.verify import verify

COUNT = 300

WRITE_UNTIL_A_SYNC_FAILS = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from support.disks.logs import opened, send, settle, small
from aerobee.storage.disk.aio import LinuxKernel
from aerobee.storage.disk.files import Files

class DyingKernel(LinuxKernel):
    word = "nothing"  # the sync of a file whose path has it writes nothing, and kills the process

    def submit(self, context, syncs, bell):
        if any(self.word in os.readlink(f"/proc/self/fd/{fd}") for fd, _ in syncs):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().submit(context, syncs, bell)

class DyingFiles(Files):
    def kernel(self):
        return kernel

root, _, word, flush, count = sys.argv[1:]
kernel = DyingKernel()
store = opened(small(Path(root), flush_mode=flush, queue_file_entries=500), DyingFiles())
send(store, body=b"durable")
settle(store)
for number in range(int(count)):
    send(store, body=b"%d " % number + bytes(100))
if word == "consumequeue":
    store.flusher.flush_log()
    store.flusher.drain(10)
    store._queues_flushed_at = 0.0  # its turn has come
print(store.commit_log.flushed_position, store.commit_log.committed, flush=True)
kernel.word = word
while True:
    store.tick()
    store.poll(0.1)
"""


def killed_by_a_failed_sync(root: Path, word: str, flush: str) -> tuple[int, int]:
    """Have a process die of a failed sync; return how far the log was flushed, and written."""
    tests = Path(__file__).parent.parent
    done = subprocess.run(
        [
            sys.executable, "-c", WRITE_UNTIL_A_SYNC_FAILS,
            str(root), str(tests), word, flush, str(COUNT),
        ],
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stdout
    assert not (root / DOUBT).exists(), "it could not note anything any more"
    flushed, written = done.stdout.split()
    return int(flushed), int(written)


@pytest.mark.parametrize("flush", [SYNC_FLUSH, ASYNC_FLUSH])
def test_a_failed_sync_that_kills_is_doubted(tmp_path: Path, flush: str) -> None:
    """What can be read is all there and written anew; the log is read from the sync's begin."""
    settings = small(tmp_path, flush_mode=flush, queue_file_entries=500)
    flushed, written = killed_by_a_failed_sync(tmp_path, "commitlog", flush)
    unheard = BootNote(Files(), tmp_path).unheard()
    assert unheard is not None and (unheard.log, unheard.queues) == (flushed, None)
    store = opened(settings)
    found = store.recovered
    assert (found.proof, found.begun_at, found.records) == (FLUSHED, flushed, COUNT)
    assert found.position == written and len(bodies(store)) == COUNT + 1
    settle(store)
    store.close()
    assert not verify(settings).problems


@pytest.mark.parametrize("flush", [SYNC_FLUSH, ASYNC_FLUSH])
def test_what_the_kernel_dropped_is_found_and_the_log_goes_on(tmp_path: Path, flush: str) -> None:
    """A page that the disk never got, and memory has let go: its messages, and no others."""
    settings = small(tmp_path, flush_mode=flush, queue_file_entries=500)
    _, written = killed_by_a_failed_sync(tmp_path, "commitlog", flush)
    path = tmp_path / "commitlog" / f"{16384:020d}"
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(4096))
    store = opened(settings)
    assert store.recovered.position == written, "no earlier than it was written to"
    (span,) = store.damage
    assert 16384 < span.begin <= 16384 + 4096 and 16384 + 8192 <= span.end < written
    (taken,) = span.queues
    gone = range(taken[2], taken[3] + 1)
    offsets = [record.queue_offset for record in read_all(store)]
    assert offsets == [offset for offset in range(COUNT + 1) if offset not in gone]
    send(store, body=b"next")
    assert read_all(store)[-1].queue_offset == COUNT + 1
    settle(store)
    store.close()


def test_a_failed_sync_of_a_queue_that_kills_is_doubted(tmp_path: Path) -> None:
    """Entries that memory has let go are written again from the log, those that it has, anew."""
    settings = small(tmp_path, queue_file_entries=500)
    flushed, written = killed_by_a_failed_sync(tmp_path, "consumequeue", ASYNC_FLUSH)
    assert flushed == written
    path = next((tmp_path / "consumequeue/orders/0").iterdir())
    with path.open("r+b") as file:
        file.seek(20)
        file.write(bytes(4096 - 20))
    store = opened(settings)
    assert store.recovered.proof == FLUSHED and len(bodies(store)) == COUNT + 1
    settle(store)
    store.close()
    assert not verify(settings).problems
