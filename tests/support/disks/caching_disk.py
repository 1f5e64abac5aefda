"""A disk like Linux's where a sync fails: what could not be written counts as clean from then on.

The next sync succeeds and says nothing of it; dropping the cache shows what the disk has.
"""

import errno
import os
from collections import defaultdict
from pathlib import Path
from typing import Final

from aerobee.storage.settings import StoreSettings
from aerobee.storage.verify import verify
from support.disks.logs import ForgetfulFiles, bodies, opened, send, settle

PAGE: Final = 4096


class CachingFiles(ForgetfulFiles):
    """A page that could not be written stays in memory alone, until it is written to again."""

    def __init__(self, boot: int = 1) -> None:
        super().__init__(boot)
        self.word = ""  # syncs of paths that hold it fail
        self.refused = ""  # so do opens and removals of paths that hold this one
        self.writes_left = 1 << 30
        self.clean: dict[Path, dict[int, bytes]] = defaultdict(dict)  # lost pages by their place

    def open(self, path: Path | str, *, create: bool = False, write: bool = True) -> int:
        """Open, unless the disk takes nothing more there."""
        path = Path(path)
        self._refuse(path)
        return super().open(path, create=create, write=write)

    def remove(self, path: Path) -> None:
        """Remove, unless the disk takes nothing more there."""
        self._refuse(path)
        super().remove(path)

    def _refuse(self, path: Path) -> None:
        if self.refused and self.refused in str(path):
            raise OSError(errno.EROFS, "read-only after an error", str(path))

    def write(self, fd: int, data: bytes | memoryview, at: int) -> None:
        """Write; the pages are dirty again. Raises when the process is to be killed here."""
        if self.writes_left == 0:
            raise KeyboardInterrupt
        self.writes_left -= 1
        super().write(fd, data, at)
        lost = self.clean[self.paths[fd]]
        for page in range(at // PAGE, (at + len(data) - 1) // PAGE + 1):
            lost.pop(page, None)

    def sync(self, fd: int) -> None:
        """Keep what is dirty; on a failure nothing is kept, and nothing is dirty any more."""
        path = self.paths[fd]
        content, kept = path.read_bytes(), bytearray(self.durable.get(path, b""))
        kept.extend(bytes(len(content) - len(kept)))
        lost = self.clean[path]
        failing = bool(self.word) and self.word in str(path)
        for page in range(-(-len(content) // PAGE)):
            place = slice(page * PAGE, (page + 1) * PAGE)
            if content[place] == kept[place] or lost.get(page) == content[place]:
                continue
            if failing:
                lost[page] = content[place]
            else:
                kept[place] = content[place]
        self.durable[path] = bytes(kept)
        if failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def drop_cache(self, fd: int, at: int, count: int) -> None:
        """Show what the disk has."""
        path = self.paths[fd]
        os.pwrite(fd, self.durable[path][at : at + count], at)
        self.clean[path].clear()

    def power_off(self, root: Path) -> "CachingFiles":
        """Lose all that is not on the disk, and nothing else; return the next boot's door."""
        after = CachingFiles(self.boot + 1)
        for path in [path for path in root.rglob("*") if path.is_file()]:
            if path in self.durable:
                path.write_bytes(self.durable[path].ljust(path.stat().st_size, b"\0"))
                after.durable[path] = path.read_bytes()
        return after


def check_all_is_durable(settings: StoreSettings, files: CachingFiles) -> None:
    """Open, have it all reported durable, lose the power: it is there."""
    store = opened(settings, files)
    assert store.recovered.records >= 40
    assert len(bodies(store)) == 41
    send(store, body=b"another")
    answers: list[bool] = []
    store.flusher.request(store.commit_log.committed, answers.append)
    store.flusher.drain(5)
    settle(store)
    assert answers == [True]
    store.abandon()
    store = opened(settings, files.power_off(settings.root))
    assert len(bodies(store)) == 42
    store.close()
    assert not verify(settings).problems
