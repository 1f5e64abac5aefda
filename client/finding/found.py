"""What a search finds, and its decoding: records of any queue, one behind the other."""

from collections.abc import Iterator, Mapping

import msgspec

from aerobee.client.cluster.decoding import decode_pulled
from aerobee.client.message import MessageQueue
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.message.record import decode_record


class FoundMessages(msgspec.Struct, frozen=True):
    """What brokers have found, the oldest first; a sequence of its `messages`.

    `complete` is False where a broker may have more: it failed, more than the wanted number match,
    or an index holds more of one second than it tells. `failed` says by the broker's name why one
    could not be asked, or not to the end. `unreadable` match, but their body is damaged.
    """

    messages: list[ReceivedMessage]
    complete: bool = True
    failed: Mapping[str, AerobeeError] = {}
    unreadable: list[ReceivedMessage] = []

    def __len__(self) -> int:
        """Return how many messages were found."""
        return len(self.messages)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Give each message, the oldest first."""
        return iter(self.messages)

    def __getitem__(self, at: int) -> ReceivedMessage:
        """Return one message by its place."""
        return self.messages[at]


def decode_found(body: bytes | memoryview, broker_name: str) -> list[ReceivedMessage]:
    """Decode the records of a reply, damaged bodies among them; raises CorruptRecord."""
    data = bytes(body)
    found: list[ReceivedMessage] = []
    at = 0
    while at < len(data):
        record = decode_record(data, at, body=False)
        queue = MessageQueue(record.topic, broker_name, record.queue_id)
        sound, unreadable, _ = decode_pulled(data[at : at + record.total_size], queue)
        found += sound or unreadable
        at += record.total_size
    return found
