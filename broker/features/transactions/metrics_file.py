"""The file `config/transactionMetrics`: how many transactions of each topic are open.

RocketMQ reads and goes on counting from it; for us it is a copy of what the store says.
Beside that it has `endedBefore`, a position of the log before which no op message is missing.
RocketMQ, which may leave some out, writes the file without it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from aerobee.broker.tables.table_file import TableFile
from aerobee.remoting.bodies import DataVersion


class OpenCount(msgspec.Struct, frozen=True, rename="camel"):
    """How many are open (TransactionMetrics.Metric); `time_stamp` in ms since 1970."""

    count: int
    time_stamp: int


class TransactionCounts(msgspec.Struct, frozen=True, rename="camel"):
    """What we read of the file."""

    ended_before: int = 0


def decode(text: bytes) -> int:
    """Return up to where the log lacks no op message, 0 where that is not said."""
    try:
        return max(0, msgspec.json.decode(text, type=TransactionCounts).ended_before)
    except ValueError:
        return 0


class TransactionMetricsFile:
    """Writes what is open now, where it has changed since the last time."""

    def __init__(self, now_ms: Callable[[], int], folder: Path) -> None:
        self._now_ms = now_ms
        self._counts: dict[str, OpenCount] = {}
        self._ended_before = 0
        self._version = DataVersion(timestamp=now_ms())
        self.file = TableFile(folder / "transactionMetrics", self.encode)

    def load(self) -> int:
        """Return up to where the log lacks no op message, as the last process knew."""
        return self.file.load(decode) or 0

    def update(self, counts: Mapping[str, int], ended_before: int) -> None:
        """Take the counts by topic, and what `load` returns; written at the next flush."""
        if ended_before == self._ended_before and counts == {
            topic: each.count for topic, each in self._counts.items()
        }:
            return
        self._ended_before = ended_before
        now_ms = self._now_ms()
        self._counts = {topic: OpenCount(count, now_ms) for topic, count in counts.items()}
        self._version = msgspec.structs.replace(
            self._version, timestamp=now_ms, counter=self._version.counter + 1
        )
        self.file.mark()

    def encode(self) -> bytes:
        """Return the text of the file."""
        return msgspec.json.encode(
            {
                "dataVersion": self._version,
                "transactionCount": self._counts,
                "endedBefore": self._ended_before,
            }
        )
