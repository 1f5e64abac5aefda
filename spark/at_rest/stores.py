"""The stores that option `path` names: one, several, or a pattern, each with its label.

The label stands for the broker in names of queues (`broker-a:0`): the folder's name, with a
pattern the name that its first wildcard stands in, or what is written before it (`label=path`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeAlias

from aerobee.spark.at_rest.log_files import StorePath
from aerobee.spark.at_rest.queue_folders import entries_are_whole
from aerobee.spark.errors import OptionError, StoreUnreadable
from aerobee.spark.options.places import store_path
from aerobee.storage.layout import COMMIT_LOG

Paths: TypeAlias = str | Sequence[str]
_LABELLED = re.compile(r"([^=/*?\[\]]+)=(.+)", re.DOTALL)
_WILDCARD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Store:
    """One store at rest, or below a running broker; `label` is unique within a query."""

    label: str
    log_dir: str
    queues_dir: str | None


def find_stores(path: Paths) -> list[Store]:
    """The stores that `path` names, by label: one text as in the option, or a sequence of paths.

    In a text commas part paths; in a sequence they belong to them. Raises StoreUnreadable where
    there is no store, OptionError where labels do not differ.
    """
    stores: dict[str, Store] = {}
    for part in _parts(path):
        for store in _named(part):
            other = stores.get(store.label)
            if other is not None and other.log_dir == store.log_dir:
                raise OptionError(f"option path: {store.log_dir} stands there twice")
            if other is not None:
                raise OptionError(
                    f"option path: {other.log_dir} and {store.log_dir} would both be called"
                    f" {store.label!r}, and queues are told apart by it: write name=path for each,"
                    " as in broker-a=/data/1,broker-b=/data/2"
                )
            stores[store.label] = store
    if not stores:
        raise OptionError("option path is missing: name the folder of a broker's store")
    return [stores[label] for label in sorted(stores)]


def has_queues(store: Store) -> bool:
    """Whether the store has ConsumeQueues with an entry for each message.

    Of batch queues RocketMQ's broker writes none: see `queue_folders`.
    """
    return store.queues_dir is not None and entries_are_whole(store.queues_dir)


def is_pattern(path: Paths) -> bool:
    """Whether more stores may be found by the same `path` later on."""
    parts = map(store_path, _parts(path))
    return any(_WILDCARD.search(part) and not Path(part).is_dir() for part in parts)


def would_find(path: Paths, label: str, log_dir: str) -> bool:
    """Whether a pattern in `path` would find a store of that name and place, if it were there."""
    there = [folder.parent.resolve() for folder in Path(log_dir).parents if folder.name == label]
    there += [Path(log_dir).parent.resolve()] if Path(log_dir).name == label else []
    for pattern in map(store_path, _parts(path)):
        if not _WILDCARD.search(pattern) or Path(pattern).is_dir():
            continue
        parts = Path(pattern).absolute().parts
        varying = _varying(parts)
        if fnmatchcase(label, parts[varying]) and Path(*parts[:varying]).resolve() in there:
            return True
    return False


def _varying(parts: Sequence[str]) -> int:
    """Which part of a pattern is the first with a wildcard in it."""
    return next(at for at, name in enumerate(parts) if _WILDCARD.search(name))


def _parts(path: Paths) -> list[str]:
    """The paths in a list; a folder whose name has a comma in it stays one."""
    if not isinstance(path, str):
        return [part for part in path if part.strip()]
    if Path(store_path(path.strip())).is_dir():
        return [path.strip()]
    return [part.strip() for part in path.split(",") if part.strip()]


def _named(part: str) -> Iterator[Store]:
    labelled = None if Path(part).is_dir() else _LABELLED.fullmatch(part)
    label, path = (labelled[1].strip(), labelled[2].strip()) if labelled else ("", part)
    path = store_path(path)
    if Path(path).is_dir() or not _WILDCARD.search(path):
        yield _store(path, label)
        return
    if label:
        raise OptionError(
            f"option path: {part!r} is a pattern and cannot have one name; each store that it"
            " finds is called by the folder that the first wildcard stands in"
        )
    found = 0
    parts = Path(path).parts
    varying = _varying(parts)
    for match in sorted(Path(*parts[:varying]).glob("/".join(parts[varying:]))):
        try:
            store = _store(str(match.absolute()), match.parts[varying])
        except StoreUnreadable:
            continue  # a pattern also finds what is no store
        found += 1
        yield store
    if not found:
        raise StoreUnreadable(f"option path: no RocketMQ store is found by {path}")


def _store(path: str, label: str) -> Store:
    folders = StorePath.find(path)
    log_dir = Path(folders.log_dir).absolute()
    name = log_dir.parent.name if log_dir.name == COMMIT_LOG else log_dir.name
    queues_dir = str(Path(folders.queues_dir).absolute()) if folders.queues_dir else None
    return Store(label or name or "store", str(log_dir), queues_dir)
