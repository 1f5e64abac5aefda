"""What was sent to the store, what was promised of it, and what the disk has of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from aerobee.storage.layout import file_name


class Key(NamedTuple):
    """A queue."""

    topic: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.queue_id}"


@dataclass(slots=True, eq=False)
class Sent:
    """One message that was appended."""

    key: Key
    life: int  # of its topic
    offset: int
    position: int
    body: bytes
    record: bytes = b""  # as it stands in the log, once it was committed
    acknowledged: bool = False  # as the flush mode has it
    promised: bool = False  # to outlive a loss of power
    damaged: bool = False  # the disk has lost it, and with good reason
    size: int = 0

    @property
    def end(self) -> int:
        """One past its last byte."""
        return self.position + self.size

    def __str__(self) -> str:
        return f"{self.key} offset {self.offset} at {self.position}"


@dataclass(slots=True)
class Book:
    """All messages that may be in the log, by position, and the lives of topics."""

    log_dir: Path
    segment_bytes: int
    messages: dict[int, Sent] = field(default_factory=dict)
    lives: dict[str, int] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)  # topics that exist
    flipped: set[int] = field(default_factory=set)  # positions of records that lost a bit
    aged: int = 0  # what lies before was removed for its age, or for want of space
    _end: int = 0

    def alive(self) -> Iterator[Sent]:
        """Yield, by position, the messages that are demanded: of topics that exist as they are."""
        for position in sorted(self.messages):
            sent = self.messages[position]
            if position >= self.aged and self.is_alive(sent) and not sent.damaged:
                yield sent

    def is_alive(self, sent: Sent) -> bool:
        """Whether a message's topic has not been deleted since."""
        return sent.key.topic in self.known and self.lives[sent.key.topic] == sent.life

    def enter(self, sent: Sent) -> None:
        """Note a message; what was noted where it lies now is no more."""
        if sent.position < self._end:
            for position in [at for at in self.messages if at >= sent.position]:
                del self.messages[position]
        self.messages[sent.position] = sent
        self._end = sent.end

    def create(self, topic: str) -> None:
        """Begin a topic's life."""
        if topic not in self.known:
            self.known.add(topic)
            self.lives[topic] = self.lives.get(topic, 0) + 1

    def delete(self, topic: str) -> None:
        """End a topic's life."""
        self.known.discard(topic)

    def file_of(self, sent: Sent) -> tuple[str, int]:
        """Return the name of the log file that has a message, and where it lies in it."""
        base = sent.position // self.segment_bytes * self.segment_bytes
        return file_name(base), sent.position - base
