"""Types of the compiled module; see records.pyx."""

from typing import Any

from aerobee.client.compiled.fields import MessageFields as MessageFields
from aerobee.client.compiled.fields import light as light
from aerobee.client.compiled.fields import measure as measure
from aerobee.client.compiled.fields import rises as rises

def decode_run(
    data: bytes | bytearray | memoryview,
    at: int,
    records: list[Any],
    kind: type,
    queue: Any,
    bounds: tuple[int, int] | None,
) -> int:
    """Append the messages of the plain records from byte `at` on; return where they end.

    They are made of `kind`, a class without fields of its own whose base is MessageFields. What
    stands at the end is anything but a plain record: packed, wrapped, damaged, cut off, or nothing.
    """
