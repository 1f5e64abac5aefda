"""What the thread of the index believes of files when it has to begin again."""

import errno
import shutil
import threading
from pathlib import Path

import pytest
from support.disks.indexes import SHAPE, agrees, indexed, store_keyed
from support.disks.logs import opened, small
from support.waiting import until

from aerobee.broker.features.index import indexing
from aerobee.broker.features.index.indexing import Indexing
from aerobee.storage.disk.files import Files
from aerobee.storage.features.index.indexer import Indexer
from aerobee.storage.layout import INDEX, INDEX_NOTE


class OutOfNumbers(Files):
    """Opens no file until it is told to."""

    def __init__(self) -> None:
        self.opens = threading.Event()
        self.refused_times = 0

    def open(self, path: Path | str, *, create: bool = False, write: bool = True) -> int:
        """Open a file, or refuse to."""
        if not self.opens.is_set():
            self.refused_times += 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().open(path, create=create, write=write)


async def test_entries_of_what_the_log_has_lost_are_not_believed_by_a_later_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Power was lost, the first try to open the index fails, and others stand there by then."""
    monkeypatch.setattr(indexing, "RETRY_INTERVAL_S", 0.02)
    before, root = tmp_path / "before", tmp_path / "store"
    lost = opened(small(before))
    store_keyed(lost, 0, 50)
    index = indexed(lost)
    index.sync()
    index.close()
    lost.close()
    store = opened(small(root))
    store_keyed(store, 0, 20)  # of which the log was flushed
    shutil.copytree(before / INDEX, root / INDEX)
    shutil.copy(before / INDEX_NOTE, root / INDEX_NOTE)
    files = OutOfNumbers()
    indexer = Indexer(files, root, SHAPE)
    started = Indexing(indexer, store.commit_log.snapshot(), clean=False)
    started.start()
    await until(lambda: started.error is not None, what="the first try to fail")
    store_keyed(store, 100, 40, topic="others")
    started.offer(store.commit_log.snapshot())
    tries = files.refused_times
    await until(lambda: files.refused_times > tries + 4, what="further tries to fail")
    files.opens.set()
    await until(lambda: started.position == store.commit_log.committed, what="all to be indexed")
    started.stop(store.commit_log.snapshot())
    agrees(indexed(store), store)
    store.close()
