"""The check sums of an index file, as `dump` prints them."""

from collections.abc import Iterator
from pathlib import Path

from aerobee.remoting.errors import CorruptRecord
from aerobee.storage.features.index.sums import decode_sums, shape_of_sums
from aerobee.storage.layout import INDEX_SUM_ENTRIES, INDEX_SUM_SLOTS


def sums_lines(path: Path) -> Iterator[str]:
    """Yield which parts of an index file have which check sums. Raises CorruptRecord."""
    shape = shape_of_sums(data := path.read_bytes())
    sums = decode_sums(data, shape) if shape is not None else None
    if shape is None or sums is None:
        raise CorruptRecord("no check sums of an index file, or cut off")
    yield f"{sums.count - 1} entries of {shape.entries}, {shape.slots} slots, head {sums.head:08x}"
    for number, each in enumerate(sums.slots):
        yield f"{number * INDEX_SUM_SLOTS:>10}  slots   {each:08x}"
    for number, each in enumerate(sums.entries):
        yield f"{max(1, number * INDEX_SUM_ENTRIES):>10}  entries {each:08x}"
