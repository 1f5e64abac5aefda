"""Which code does the loops of the index: compiled where it was built, else Python."""

from types import ModuleType
from typing import TYPE_CHECKING

from aerobee.storage.features.index import slices

if TYPE_CHECKING:
    from aerobee.storage.compiled.index_slices import KeyRuns


def loops() -> ModuleType:
    """Return the module that does the loops."""
    try:
        from aerobee.storage.compiled import index_slices
    except ImportError:
        return slices
    return index_slices


def key_runs(bytes_max: int) -> "KeyRuns | None":
    """Return what hashes the keys of packed records; None: where Python does, the log is read."""
    try:
        from aerobee.storage.compiled.index_slices import KeyRuns
    except ImportError:
        return None
    return KeyRuns(bytes_max)


def compiled() -> bool:
    """Whether the loops run without the interpreter's lock."""
    return loops() is not slices
