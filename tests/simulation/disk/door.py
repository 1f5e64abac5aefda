"""The product's door to files, leading to a simulated machine: one for each life of a process.

Every operation may be the last of its process, and may fail as the weather has it.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aerobee.storage.disk.files import WRITE_BYTES_MAX, Files
from simulation.disk.machine import Died, Machine
from simulation.disk.names import Folder
from simulation.disk.pages import PAGE_BYTES, Inode

if TYPE_CHECKING:
    from simulation.disk.jobs import SteppedJob
    from simulation.disk.kernel import SimulatedKernel

DISK_BYTES: Final = 1 << 30
UNDER_A_LOCK: Final = frozenset({"replace", "remove"})  # which the loop could want meanwhile


def _pages(at: int, count: int) -> range:
    """Return the pages that a range touches, one at least."""
    return range(at // PAGE_BYTES, (at + max(1, count) - 1) // PAGE_BYTES + 1)


class _Named(os.PathLike[str]):
    """The name of a refused file: it leads there, and reads alike wherever the run is."""

    def __init__(self, root: Path, name: str) -> None:
        self._root = root
        self._name = name

    def __fspath__(self) -> str:
        return str(self._root / self._name)

    def __repr__(self) -> str:
        return self._name


class Door(Files):
    """Files of the machine, as one process sees them."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.dead = False
        self.aio: SimulatedKernel | None = None
        self.job: SteppedJob | None = None  # of the store's thread, under way
        self.on_death: Callable[[], object] = lambda: None
        self._open: dict[int, tuple[Inode, str]] = {}
        self._folders: set[int] = set()

    # --- what may happen at each operation ---

    def step(self, kind: str, path: Path | str, detail: object = "") -> None:
        """Begin an operation: the process may be dead, or die, or the disk refuse."""
        machine = self.machine
        if machine.judged:
            return
        if self.job is not None and kind not in UNDER_A_LOCK and self.job.is_running():
            self.job.pause()
        if self.dead:
            raise Died
        name = path if isinstance(path, str) else machine.relative(path)
        machine.operations += 1
        machine.note(f"{kind} {name} {detail}")
        if machine.fuse >= 0:
            machine.fuse -= 1
            if machine.fuse < 0:
                self.die()
        if code := machine.weather.error(kind, name):
            machine.note(f"    fails: {os.strerror(code)}")
            raise OSError(code, os.strerror(code), _Named(machine.root, name))

    def die(self) -> None:
        """End the process here."""
        self.dead = True
        self.machine.note("    the process dies")
        self.on_death()
        raise Died

    def bury(self) -> None:
        """Close what a dead process had open, as the kernel does."""
        self.dead = True
        for fd in (*self._open, *self._folders):
            os.close(fd)
        self._open.clear()
        self._folders.clear()
        for inode in self.machine.files():
            inode.failed = False  # the next process has what is so of the words of the boot note

    def inode(self, fd: int) -> Inode:
        """Return the file behind a number."""
        return self._open[fd][0]

    def name(self, fd: int) -> str:
        """Return the path, from the root, with which a number was opened."""
        return self._open[fd][1]

    # --- files ---

    def open(self, path: Path | str, *, create: bool = False, write: bool = True) -> int:
        """Open a file; a new one has a name that the disk does not have yet."""
        path = Path(path)
        fresh = create and self.machine.node(path) is None
        self.step("create" if fresh else "open", path)
        fd = super().open(path, create=create, write=write)
        if fresh:
            self.machine.folder(path.parent).change({path.name: self.machine.adopt(path)})
        node = self.machine.node(path)
        assert isinstance(node, Inode), path
        self._open[fd] = node, self.machine.relative(path)
        return fd

    def close(self, fd: int) -> None:
        """Close a number; the dead may, too."""
        if self.job is not None and not self.dead and self.job.is_running():
            self.job.pause()
        if fd in self._folders or self._open.pop(fd, None) is not None:
            self._folders.discard(fd)
            super().close(fd)

    def size(self, path: Path | str) -> int:
        """Return a file's length."""
        path = Path(path)
        self.step("size", path)
        return super().size(path)

    def modified(self, path: Path) -> float:
        """Return the virtual time of the last write."""
        self.step("modified", path)
        node = self.machine.node(path)
        if not isinstance(node, Inode):
            raise FileNotFoundError(path)
        return node.modified_s

    def resize(self, fd: int, size: int) -> None:
        """Set a length; what is added has no space."""
        inode, name = self._open_file(fd)
        self.step("resize", name, size)
        super().resize(fd, size)
        inode.grown = True
        inode.space = {page for page in inode.space if page * PAGE_BYTES < size}

    def prepare(self, fd: int, at: int, count: int) -> None:
        """Give a range space and zeros."""
        inode, name = self._open_file(fd)
        self.step("prepare", name, f"{at}+{count}")
        os.pwrite(fd, bytes(count), at)
        self._wrote(inode, at, count)

    def allocate(self, fd: int, at: int, count: int) -> bool:
        """Give a range space alone, where this machine's file system can."""
        inode, name = self._open_file(fd)
        self.step("fallocate", name, f"{at}+{count}")
        if not self.machine.allocates:
            return False
        assert count, "an error of the real call"
        inode.space.update(_pages(at, count))
        return True

    def clear(self, fd: int, at: int, count: int) -> None:
        """Turn a range into zeros and take its space; its ends share pages with others."""
        inode, name = self._open_file(fd)
        self.step("clear", name, f"{at}+{count}")
        count = min(count, inode.size - at)
        super().clear(fd, at, count)
        first, last = -(-at // PAGE_BYTES), (at + count) // PAGE_BYTES
        inode.space -= set(range(first, last))

    def write(self, fd: int, data: bytes | memoryview, at: int) -> None:
        """Write into memory; a page that has no space yet needs some."""
        for begin in range(0, len(data), WRITE_BYTES_MAX):
            self._write_piece(fd, memoryview(data)[begin : begin + WRITE_BYTES_MAX], at + begin)

    def _write_piece(self, fd: int, data: memoryview, at: int) -> None:
        inode, name = self._open_file(fd)
        pages = _pages(at, len(data))
        kind = "write" if inode.space.issuperset(pages) else "allocate"
        self.step(kind, name, f"{at}+{len(data)}")
        os.pwrite(fd, data, at)
        self._wrote(inode, at, len(data))

    def _wrote(self, inode: Inode, at: int, count: int) -> None:
        pages = _pages(at, count)
        inode.grown = True
        inode.space.update(pages)
        for page in pages:
            inode.lost.pop(page, None)  # dirty again
        inode.modified_s = self.machine.clock.time()

    def read(self, fd: int, count: int, at: int) -> bytes:
        """Read what memory has."""
        _, name = self._open_file(fd)
        self.step("read", name, f"{at}+{count}")
        return super().read(fd, count, at)

    def drop_cache(self, fd: int, at: int, count: int) -> None:
        """Read anew what the disk has of a range, next time; dirty pages stay."""
        inode, name = self._open_file(fd)
        self.step("drop_cache", name, f"{at}+{count}")
        inode.evict(pages=_pages(at, count))

    def sync(self, fd: int) -> None:
        """Bring a file to the disk, here and now."""
        inode, name = self._open_file(fd)
        picture = inode.picture()
        try:
            self.step("sync", name)
            inode.tell()
        except OSError:
            inode.fail(picture, self.machine.dice)
            raise
        self.synced(inode, picture)

    def synced(self, inode: Inode, picture: object) -> None:
        """Let the disk have what a sync has carried there."""
        inode.keep(picture)  # type: ignore[arg-type]
        if self.machine.journaled:
            self.machine.sync_names()

    def open_directory(self, path: Path) -> int:
        """Open a directory."""
        self.step("open", path)
        fd = super().open_directory(path)
        self._folders.add(fd)
        return fd

    def sync_file_system(self, fd: int) -> None:
        """Bring every file and name to the disk; a failure is that of some file, and is its own."""
        machine = self.machine
        pictures = [(inode, inode.picture()) for inode in machine.files()]
        try:
            self.step("sync", "consumequeue, and all else")
        except OSError:
            queues = machine.top.find("consumequeue")
            mine = list(queues.below()) if isinstance(queues, Folder) else []
            for inode, picture in pictures:
                if inode in mine and picture.pages and machine.dice.random() < 0.5:
                    inode.fail(picture, machine.dice)
                    inode.failed = True
            raise
        for inode, picture in pictures:
            inode.keep(picture)
        machine.sync_names()

    def _open_file(self, fd: int) -> tuple[Inode, str]:
        if self.dead:
            raise Died
        return self._open[fd]

    # --- names ---

    def sync_directory(self, path: Path) -> None:
        """Bring the names in a directory to the disk."""
        self.step("sync_directory", path)
        if self.machine.node(path) is None:
            raise FileNotFoundError(path)
        self.machine.folder(path).sync()
        if self.machine.journaled:
            self.machine.sync_names()

    def replace(self, source: Path, target: Path) -> None:
        """Rename over whatever is there."""
        self.step("replace", source, self.machine.relative(target))
        node = self.machine.node(source)
        super().replace(source, target)
        if source.parent == target.parent:
            self.machine.folder(source.parent).change({source.name: None, target.name: node})
        else:
            came = self.machine.folder(target.parent).change({target.name: node})
            self.machine.folder(source.parent).change({source.name: None}, needs=came)

    def remove(self, path: Path) -> None:
        """Remove a name."""
        if self.dead:
            raise Died
        if self.machine.node(path) is not None:
            self.step("remove", path)
            super().remove(path)
            self.machine.folder(path.parent).change({path.name: None})

    def remove_directory(self, path: Path) -> None:
        """Remove a directory if it is empty."""
        node = self.machine.node(path)
        if isinstance(node, Folder) and not node.entries:
            self.step("rmdir", path)
            super().remove_directory(path)
            self.machine.folder(path.parent).change({path.name: None})

    def make_directory(self, path: Path) -> None:
        """Make a directory and those above it."""
        if self.dead:
            raise Died
        if path == self.machine.root or self.machine.node(path) is not None:
            return
        self.make_directory(path.parent)
        self.step("mkdir", path)
        path.mkdir(exist_ok=True)  # tables, which do not pass this door, lie in one of them
        self.machine.folder(path.parent).change({path.name: Folder()})

    def names(self, path: Path) -> list[str]:
        """Return the names in a directory."""
        self.step("names", path)
        return super().names(path)

    def read_all(self, path: Path, bytes_max: int) -> bytes | None:
        """Read a small file."""
        self.step("read", path)
        return super().read_all(path, bytes_max)

    # --- the machine ---

    def boot_id(self) -> bytes:
        """Another one after each loss of power."""
        return f"{self.machine.boot:036d}".encode()

    def maps_max(self) -> int:
        """There are always enough."""
        return 65_530

    def disk_used_ratio(self, path: Path) -> float:
        """Return what the weather says."""
        self.step("used", path)
        return self.machine.weather.used_ratio

    def disk_bytes(self, path: Path) -> int:
        """Return the size of the disk."""
        return DISK_BYTES

    def allocated_bytes(self, fd: int) -> int:
        """Return how much space a file has."""
        return len(self._open_file(fd)[0].space) * PAGE_BYTES

    def kernel(self) -> "SimulatedKernel | None":
        """Return what syncs in the background."""
        return self.aio
