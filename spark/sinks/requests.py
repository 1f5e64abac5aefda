"""Messages with ids of our choice as requests, and where a broker's reply says that they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from aerobee.client.message import Message, MessageQueue
from aerobee.client.sending.outgoing import Outgoing, Packer, read_reply
from aerobee.client.settings import ProducerSettings
from aerobee.remoting.command import Command

PRODUCER_GROUP: Final = "SPARK_SINK"  # a name in traces; brokers keep nothing of it
USUAL: Final = ProducerSettings()
_packer: Final = Packer(PRODUCER_GROUP, USUAL)


class SinkRequest(NamedTuple):
    """Messages of one topic on their way to a queue."""

    outgoing: Outgoing
    queue: MessageQueue
    delayed: bool

    @property
    def command(self) -> Command:
        """What is sent."""
        fields = _packer.fields(self.outgoing, self.queue)
        return Command(self.outgoing.code, fields, self.outgoing.body)

    def stored_at(self, reply: Command, address: str) -> int | None:
        """The offset of the first message, as far as it stands in the queue already.

        A delayed one waits in a queue of another topic, whose offset the reply tells. Raises
        BrokerRefused for a code that does not mean "stored", ProtocolError for nonsense.
        """
        result = read_reply(reply, self.outgoing, self.queue, address)
        return None if self.delayed or result.queue != self.queue else result.queue_offset


def send_request(
    messages: Sequence[Message], ids: Sequence[str], queue: MessageQueue
) -> SinkRequest:
    """The request that stores messages of one topic in a queue, several as a batch.

    A large body of a single message is compressed. Raises InvalidMessage for properties or a
    batch that are too long, and for names and values with separators.
    """
    if len(messages) > 1:
        return SinkRequest(_packer.pack_batch(messages, ids), queue, delayed=False)
    message = messages[0]
    return SinkRequest(_packer.pack(message, ids[0]), queue, delayed=bool(message.delay_level))
