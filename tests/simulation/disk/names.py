"""Which names lead to which files: in memory, and on the disk once their folder was synced."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from random import Random
from typing import Final, Union

from simulation.disk.pages import Inode

HERE: Final = PurePosixPath()

Node = Union["Folder", Inode, None]
"""What a name leads to; None: to nothing."""


class Change:
    """What comes to the disk as a whole or not at all, and never before what it `needs`."""

    __slots__ = ("durable", "entries", "folder", "needs")

    def __init__(
        self, folder: "Folder", entries: dict[str, Node], needs: "Change | None" = None
    ) -> None:
        self.folder = folder
        self.entries = entries
        self.needs = needs
        self.durable = False


class Folder:
    """Names as processes see them; changes reach the disk in their order, at a sync all of them.

    A file that moves to another folder is in one of both at least: with any journal the old name
    goes with the new one's coming, or later. Neither is certain before its folder was synced.
    """

    def __init__(self) -> None:
        self.entries: dict[str, Folder | Inode] = {}
        self.durable: dict[str, Folder | Inode] = {}
        self._pending: list[Change] = []

    def change(self, entries: dict[str, Node], needs: Change | None = None) -> Change:
        """Make a change that arrives as a whole or not at all, and not before another one."""
        _apply(self.entries, entries)
        self._pending.append(Change(self, entries, needs))
        return self._pending[-1]

    def sync(self, last: Change | None = None) -> None:
        """Let the disk have every change, or those up to one of them."""
        while self._pending and not (last is not None and last.durable):
            change = self._pending.pop(0)
            if change.needs is not None and not change.needs.durable:
                change.needs.folder.sync(change.needs)
            self._arrive(change)

    def lose(self, dice: Random) -> None:
        """Let the disk have the first few changes, and forget the others."""
        for change in self._pending[: dice.randint(0, len(self._pending))]:
            if change.needs is not None and not change.needs.durable:
                break
            self._arrive(change)
        self._pending.clear()
        self.entries = dict(self.durable)

    def _arrive(self, change: Change) -> None:
        _apply(self.durable, change.entries)
        change.durable = True

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
