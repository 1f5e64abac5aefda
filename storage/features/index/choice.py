"""Which code does the loops of the index: compiled where it was built, else Python."""

from types import ModuleType

from aerobee.storage.features.index import slices


def loops() -> ModuleType:
    """Return the module that does the loops."""
    try:
        from aerobee.storage.compiled import index_slices
    except ImportError:
        return slices
    return index_slices


def compiled() -> bool:
    """Whether the loops run without the interpreter's lock."""
    return loops() is not slices
