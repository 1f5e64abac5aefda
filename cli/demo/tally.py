"""What was sent and what arrived, message by message, so that nothing can be lost unseen."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class ConsumerRow(NamedTuple):
    """One consumer as the live table shows it."""

    consumer: str
    queues: Mapping[str, tuple[int, ...]]  # topic -> the queues it owns now
    took: int
    here: bool  # False once it has left


class Snapshot(NamedTuple):
    """The state of the demonstration at one moment."""

    elapsed_s: float
    total: int
    sent: int
    consumed: int
    event: str  # what happened last, in words
    rows: tuple[ConsumerRow, ...]


@dataclass(frozen=True, slots=True)
class Totals:
    """The balance at the end; messages, and how often one came more than once."""

    sent: int
    consumed: int
    lost: int
    repeated: int


class Tally:
    """Counts deliveries of messages numbered from 0 to `total` - 1."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.sent = 0  # acknowledged by the broker
        self.consumed = 0  # distinct messages that a consumer has taken
        self._times = [0] * total
        self.took: Counter[str] = Counter()

    def acknowledge(self, count: int = 1) -> None:
        """Note that the broker has stored `count` more messages."""
        self.sent += count

    def deliver(self, consumer: str, number: int) -> None:
        """Note that `consumer` was given message `number`."""
        self.consumed += not self._times[number]
        self._times[number] += 1
        self.took[consumer] += 1

    def totals(self) -> Totals:
        """Strike the balance."""
        repeated = sum(1 for times in self._times if times > 1)
        return Totals(self.sent, self.consumed, self.sent - self.consumed, repeated)
