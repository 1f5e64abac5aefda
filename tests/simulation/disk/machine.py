"""A machine with one disk: what outlives processes, and what outlives a loss of power."""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from simulation.disk.clock import Clock
from simulation.disk.names import Folder, Node
from simulation.disk.pages import PAGE_BYTES, Inode
from simulation.disk.weather import Weather


class Died(BaseException):
    """The process has ended between two of its operations; nothing of it runs any more."""


class Machine:
    """Everything below `root`. Processes come through a Door each, one at a time."""

    def __init__(
        self, root: Path, seed: object, clock: Clock, echo: Callable[[str], object] | None = None
    ) -> None:
        self.root = root
        self._root_chars = len(str(root)) + 1
        self.clock = clock
        self.dice = Random(f"disk {seed}")
        self.weather = Weather(Random(f"weather {seed}"), clock.monotonic)
        self.top = Folder()
        self.boot = 1
        self.operations = 0
        self.fuse = -1  # so many operations are left to the process, -1: no end is set
        self.journaled = True  # a sync of a file brings its name to the disk
        self.allocates = True  # the file system has fallocate
        self.interrupted_jobs = 0.0  # the share of the thread's jobs that stand still on the way
        self.judged = False  # whoever looks on is no process: nothing counts, nothing fails
        self._inodes: list[Inode] = []
        self._echo = echo
        self._hash = hashlib.sha256()
        root.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def looked_at(self) -> Iterator[None]:
        """Let operations be those of a judge, whom nothing befalls and who leaves no trace."""
        before, self.judged = self.judged, True
        try:
            yield
        finally:
            self.judged = before

    # --- the trace ---

    def note(self, line: str) -> None:
        """Enter a line into the trace."""
        self._hash.update(line.encode())
        if self._echo is not None:
            self._echo(f"{self.clock.monotonic():10.4f} {self.operations:6d} {line}")

    def digest(self) -> str:
        """Return what two runs have in common only if all their operations are the same."""
        return self._hash.hexdigest()[:16]

    # --- names ---

    def relative(self, path: Path) -> str:
        """Return a path, which is not above the root, as seen from there."""
        return str(path)[self._root_chars :] or "."

    def node(self, path: Path) -> Node:
        """Return what a path leads to."""
        return self.top.find(self.relative(path))

    def folder(self, path: Path) -> Folder:
        """Return the folder at a path."""
        node = self.node(path)
        assert isinstance(node, Folder), path
        return node

    def adopt(self, path: Path, durable: bytes = b"") -> Inode:
        """Take a file that has just been made into the books, under no name yet."""
        inode = Inode(os.open(path, os.O_RDWR | os.O_CLOEXEC), durable)
        inode.modified_s = self.clock.time()
        self._inodes.append(inode)
        return inode

    def sync_names(self) -> None:
        """Let the disk have every name and size, as a journal that is committed as a whole."""
        self.top.sync()
        for node in self.top.below():
            if isinstance(node, Folder):
                node.sync()
            elif isinstance(node, Inode):
                node.keep_size()

    def files(self) -> list[Inode]:
        """Return every file that has a name, by name."""
        return [node for node in self.top.below() if isinstance(node, Inode)]

    # --- what befalls it ---

    def write_back(self) -> None:
        """Let some dirty pages of some files reach the disk unasked."""
        for inode in self.files():
            if self.dice.random() < 0.3:
                inode.keep_some(self.dice)

    def evict(self) -> int:
        """Drop clean pages from memory; after a failed sync that shows. Return how many showed."""
        return sum(inode.evict(self.dice) for inode in self.files())

    def lose_power(self) -> None:
        """Forget what was not synced; what is left is there at the next boot."""
        self.boot += 1
        self.clock.forget()
        before, self._inodes = self._inodes, []
        live = list(self.top.walk())
        share = self.dice.choice((0.0, 1.0, self.dice.random(), self.dice.random()))
        if self.journaled and self.dice.random() < 0.3:
            self.sync_names()
        self._lose_names(self.top)
        for path, node in reversed(live):
            with contextlib.suppress(OSError):  # a folder has files that are none of ours
                (self.root / path).rmdir() if isinstance(node, Folder) else (
                    self.root / path
                ).unlink()
        self._restore(self.top, self.root, share)
        for inode in before:
            os.close(inode.fd)
        self.note(f"power lost, {share:.2f} of the rest arrived, {len(self._inodes)} files")

    def _lose_names(self, folder: Folder) -> None:
        folder.lose(self.dice)
        for name in sorted(folder.entries):
            node = folder.entries[name]
            if isinstance(node, Folder):
                self._lose_names(node)

    def _restore(self, folder: Folder, at: Path, share: float) -> None:
        for name in sorted(folder.entries):
            node, path = folder.entries[name], at / name
            if isinstance(node, Folder):
                path.mkdir(exist_ok=True)
                self._restore(node, path, share)
                continue
            data = node.after_power_loss(self.dice, share)
            path.touch()
            inode = self.adopt(path, data)
            inode.modified_s = node.modified_s
            os.ftruncate(inode.fd, len(data))
            for begin in range(0, len(data), PAGE_BYTES):
                page = data[begin : begin + PAGE_BYTES]
                if page.count(0) != len(page):
                    os.pwrite(inode.fd, page, begin)
                    inode.space.add(begin // PAGE_BYTES)
            folder.entries[name] = folder.durable[name] = inode

    def flip(self, path: Path, at: int, bit: int) -> None:
        """Turn one bit of a file at rest."""
        inode = self.node(path)
        assert isinstance(inode, Inode)
        data = os.pread(inode.fd, 1, at)
        turned = bytes([data[0] ^ (1 << bit)])
        os.pwrite(inode.fd, turned, at)
        inode.durable[at : at + 1] = turned
        self.note(f"bit {bit} of byte {at} of {self.relative(path)} flips")

    def close(self) -> None:
        """Let go of every file."""
        for inode in self._inodes:
            os.close(inode.fd)
        self._inodes.clear()
