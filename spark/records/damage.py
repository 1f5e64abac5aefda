"""What happens where the log is damaged: the query fails, tells it in a row, or passes over it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.layout import POSITION_AT
from aerobee.spark.columns import CORRUPT
from aerobee.spark.errors import DataLost

if TYPE_CHECKING:  # options know the modes, and need nothing else of what reads
    import pyarrow as pa

    from aerobee.spark.records.headers import Records
    from aerobee.spark.records.layout import Bytes, Ints

log = logging.getLogger(__name__)

FAILFAST: Final = "FAILFAST"
PERMISSIVE: Final = "PERMISSIVE"
DROPMALFORMED: Final = "DROPMALFORMED"

Made = TypeVar("Made")


class Damage:
    """What a task does about damage and loss, and the damage that it has met and not yet told.

    Of damage `mode` decides: FAILFAST raises it as CorruptRecord. Of messages that are gone
    `fail_on_data_loss` does: they raise DataLost, or are warned of and left out.
    """

    def __init__(self, mode: str = FAILFAST, *, fail_on_data_loss: bool = True) -> None:
        self.mode = mode
        self.fail_on_data_loss = fail_on_data_loss
        self._found: list[tuple[int, str]] = []

    def note(self, position: int, reason: str) -> None:
        """Damage at a log position. Raises CorruptRecord if the mode says so."""
        if self.mode == FAILFAST:
            raise CorruptRecord(reason)
        log.warning("%s; passed over", reason)
        if self.mode == PERMISSIVE:
            self._found.append((position, reason))

    def lost(self, error: DataLost, what: str = "its messages") -> None:
        """Raise the loss of `what`, or warn of it."""
        if self.fail_on_data_loss:
            raise error
        log.warning("%s; %s are left out", error, what)

    @contextmanager
    def bearing_loss(self) -> Iterator[None]:
        """Pass DataLost on, or end what is read there with a warning."""
        try:
            yield
        except DataLost as error:
            self.lost(error)

    def rows(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """A batch with a row for each damage since the last call, where the schema has room."""
        found, self._found = self._found, []
        if not found or CORRUPT not in schema.names:
            return
        import pyarrow as pa

        columns = {
            "commit_log_offset": pa.array([position for position, _ in found], pa.int64()),
            CORRUPT: pa.array([reason for _, reason in found], pa.string()),
        }
        arrays = [
            columns[field.name] if field.name in columns else pa.nulls(len(found), field.type)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def located(self, data: Bytes, base: int, starts: Ints, sizes: Ints) -> Iterator[Records]:
        """The records whose lengths agree; those between which damaged ones stand, in parts."""
        from aerobee.spark.records.headers import Records
        from aerobee.spark.records.layout import unaligned

        try:
            records = Records(data, base, starts, sizes)
        except CorruptRecord as error:
            if len(starts) == 1 or self.mode == FAILFAST:
                self.note(int(unaligned(data, ">i8")[starts[0] + POSITION_AT]), str(error))
                return
        else:
            yield records
            return
        half = len(starts) // 2
        yield from self.located(data, base, starts[:half], sizes[:half])
        yield from self.located(data, base, starts[half:], sizes[half:])

    def each(self, make: Callable[[Records], Made], records: Records) -> Iterator[Made]:
        """What `make` makes of the records, without those for which it raises CorruptRecord."""
        try:
            made = make(records)
        except CorruptRecord as error:
            if len(records) == 1 or self.mode == FAILFAST:
                self.note(records.position(0), str(error))
                return
        else:
            yield made
            return
        half = len(records) // 2
        yield from self.each(make, records.only(slice(None, half)))
        yield from self.each(make, records.only(slice(half, None)))


STRICT: Final = Damage()
