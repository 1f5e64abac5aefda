"""What happens where the log is damaged: the query fails, tells it in a row, or passes over it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from aerobee.remoting.errors import CorruptRecord
from aerobee.spark.errors import DataLost
from aerobee.spark.records.columns import CORRUPT

if TYPE_CHECKING:  # options know the modes, and need nothing else of what reads
    import pyarrow as pa

log = logging.getLogger(__name__)

FAILFAST: Final = "FAILFAST"
PERMISSIVE: Final = "PERMISSIVE"
DROPMALFORMED: Final = "DROPMALFORMED"


class DamagePolicy:
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
        self._pass_over(position, reason)

    def _pass_over(self, position: int, reason: str) -> None:
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


STRICT: Final = DamagePolicy()
