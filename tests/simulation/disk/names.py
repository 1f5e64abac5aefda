"""Which names lead to which files: in memory, and on the disk once their folder was synced."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from random import Random
from typing import Final, Union

from simulation.disk.pages import Inode

HERE: Final = PurePosixPath()

Node = Union["Folder", Inode, None]
"""What a name leads to; None: to nothing."""


class Folder:
    """Names as processes see them; changes reach the disk in their order, at a sync all of them."""

    def __init__(self) -> None:
        self.entries: dict[str, Folder | Inode] = {}
        self.durable: dict[str, Folder | Inode] = {}
        self._pending: list[dict[str, Node]] = []

    def change(self, changes: dict[str, Node]) -> None:
        """Make a change that arrives as a whole or not at all."""
        _apply(self.entries, changes)
        self._pending.append(changes)

    def sync(self) -> None:
        """Let the disk have every change."""
        while self._pending:
            _apply(self.durable, self._pending.pop(0))

    def lose(self, dice: Random) -> None:
        """Let the disk have the first few changes, and forget the others."""
        for changes in self._pending[: dice.randint(0, len(self._pending))]:
            _apply(self.durable, changes)
        self._pending.clear()
        self.entries = dict(self.durable)

    def find(self, path: str) -> Node:
        """Follow a path; "." is this folder."""
        node: Node = self
        for part in path.split("/") if path != "." else ():
            if not isinstance(node, Folder):
                return None
            node = node.entries.get(part)
        return node

    def below(self) -> Iterator["Folder | Inode"]:
        """Yield everything below in the order of `walk`, without its paths."""
        for name in sorted(self.entries):
            node = self.entries[name]
            yield node
            if isinstance(node, Folder):
                yield from node.below()

    def walk(self, at: PurePosixPath = HERE) -> Iterator[tuple[PurePosixPath, Node]]:
        """Yield everything below, folders before what is in them, sorted by name."""
        for name in sorted(self.entries):
            node = self.entries[name]
            yield at / name, node
            if isinstance(node, Folder):
                yield from node.walk(at / name)


def _apply(entries: dict[str, Folder | Inode], changes: dict[str, Node]) -> None:
    for name, node in changes.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node
