"""The keys of a dictionary by parts of them, without asking whoever adds one."""

from collections.abc import Callable, Hashable
from itertools import islice
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

Part = Callable[[Any], Hashable]
"""Takes a key and returns a part of it."""


class GroupedKeys(Generic[K]):
    """The keys of `table` by one or several parts of each, in the order they came.

    What one part has costs what it has, not what all have: so one topic of ten thousand can go. Any
    code may add to the table, compiled code too, for a dictionary keeps its order and what is new
    is looked at when somebody asks; before the first question nothing is kept. A question after
    many additions holds a loop: who can, puts each by `put`, in a fraction of a microsecond. Keys
    are removed by `remove` alone.
    """

    def __init__(self, table: dict[K, Any], *parts: Part) -> None:
        self._table = table
        self._parts = parts
        self._groups: tuple[dict[Hashable, dict[K, None]], ...] = ()
        self._seen = 0  # keys of the table that are in the groups: its first ones

    def of(self, part: Hashable, by: int = 0) -> list[K]:
        """Return the keys that have a part, the first unless `by` says which."""
        self._look()
        return list(self._groups[by].get(part, ()))

    def put(self, key: K, value: Any) -> None:
        """Add a key that the table does not have, and have it in its groups at once."""
        self._look()
        self._table[key] = value
        self._take(key)
        self._seen += 1

    def remove(self, key: K) -> None:
        """Remove a key from the table, if it is there."""
        if self._groups and key in self._table:
            self._look()
            for groups, part in zip(self._groups, self._parts, strict=True):
                group = groups[name := part(key)]
                del group[key]
                if not group:
                    del groups[name]
            self._seen -= 1
        self._table.pop(key, None)

    def _look(self) -> None:
        """Take in what came since."""
        if not self._groups:
            self._groups = tuple({} for _ in self._parts)
        if self._seen == len(self._table):
            return
        for key in islice(self._table, self._seen, None):
            self._take(key)
        self._seen = len(self._table)

    def _take(self, key: K) -> None:
        for groups, part in zip(self._groups, self._parts, strict=True):
            group = groups.get(name := part(key))
            if group is None:
                groups[name] = {key: None}
            else:
                group[key] = None
