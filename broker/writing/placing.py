"""Which messages are stored elsewhere than in their own queue: asked on the checked path."""

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from aerobee.broker.writing.queues import TopicQueue
from aerobee.broker.writing.runs import ServeRun
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.headers.envelopes import SendFields
from aerobee.remoting.headers.transactions import EndTransactionRequest
from aerobee.remoting.message.record import Record


class Elsewhere(msgspec.Struct, frozen=True):
    """Where a message is stored that does not go to its own queue, and as what.

    `tags_code` is for its queue entry, `spare_bytes` must be left free among its properties, and
    `appended` is called when it was appended, before it is committed. Of its sys flag the bits of
    `cleared_flags` are not stored. `reply` has fields of the reply to its sender (SendMessageReply)
    that are others for it.
    """

    queue: TopicQueue
    tags_code: int
    spare_bytes: int
    appended: Callable[[], None]
    cleared_flags: int = 0
    reply: Mapping[str, str] = msgspec.field(default_factory=dict)


class InnerBatch(msgspec.Struct, frozen=True):
    """A batch that is stored as one record: where, with which properties, and as what.

    Bits of `flags` are set in its sys flag; `key` is what its client knows it by.
    """

    place: Elsewhere
    properties: dict[str, str]
    flags: int
    key: str


class BatchPlacer(Protocol):
    """Says which batches are stored as one record."""

    def inner(
        self, topic: TopicConfig, queue_id: int, sent: dict[str, str], messages: int
    ) -> InnerBatch | None:
        """Return how a batch of so many messages is stored, None where it is not one record.

        `sent` are the properties of its header. Raises RequestError for what cannot be.
        """


class HalfAppender(Protocol):
    """Appends what begins a transaction, and is plain otherwise; and what ends one.

    `serve_run` does so for many at once, where that is compiled and wanted.
    """

    serve_run: ServeRun | None

    def end(self, header: EndTransactionRequest) -> bool:
        """End a transaction if nothing is unusual about that; a one-way request said so."""

    def append(
        self, queue: TopicQueue, fields: SendFields, body: bytes, stamp: bytes, stamp_flag: int
    ) -> tuple[int, int, bytes] | None:
        """Return its position, offset and unique key; None for what it does not take."""


class HalfOutcomes(Protocol):
    """Knows how transactions have ended."""

    async def stands(self, record: Record) -> bool:
        """Whether a half message is open, or was committed; not so: nobody will ever see it.

        Raises RequestError where the disk refuses.
        """


class StoredBefore(Exception):
    """A message is stored already: its sender is answered with where, and nothing is stored."""

    def __init__(self, queue_id: int, position: int, offset: int) -> None:
        super().__init__(f"stored before at position {position}")
        self.queue_id = queue_id
        self.position = position
        self.offset = offset


class Placer(Protocol):
    """Says which messages are stored elsewhere; asked of every message of the checked path."""

    def elsewhere(
        self, properties: dict[str, str], topic: str, queue_id: int, now_ms: int
    ) -> Elsewhere | None:
        """Return where, with its `properties` changed for there, or None: no business of this one.

        Raises RequestError for properties that cannot be, and StoredBefore for what is there.
        """


class LightEntries(msgspec.Struct, frozen=True):
    """The properties that a message for light queues is stored with; `appended` is called then."""

    properties: bytes
    appended: Callable[[], None]


class LightPlacer(Placer, Protocol):
    """Puts entries of messages into the light queues that they name."""

    def check(self, properties: dict[str, str], topic: str) -> int:
        """Check what a message that is sent says of light queues, before it may be put aside.

        Returns how many bytes must be left free among its properties, for what it gets when it is
        stored in its topic. RequestError where it names what cannot be.
        """

    def entries(self, queue: TopicQueue, properties: bytes, tags_code: int) -> LightEntries | None:
        """Return the entries of a message that was acknowledged before; None: it gets none.

        It names light queues. What cannot be filled is left out, and logged. Raises StoreError,
        having done nothing, while a queue takes no entry.
        """
