"""Offsets of pulled messages that cannot be right: commits need them, no checksum covers them."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aerobee.remoting.errors import CorruptRecord

if TYPE_CHECKING:
    from aerobee.client.received import ReceivedMessage

log = logging.getLogger(__name__)


def put_in_order(records: "Sequence[ReceivedMessage]", first: int, behind: int) -> None:
    """See to it that the offsets of a reply's records rise from `first` and stay below `behind`.

    One flipped bit in a record's own offset would let the group commit one that has nothing to do
    with the queue, and wait for it for ever. Such a message gets the offset behind the one before
    it, which is its own wherever nothing was filtered out. Raises CorruptRecord for more records
    than offsets.
    """
    last = first - 1
    for record in records:
        if not last < record.queue_offset < behind:
            break
        last = record.queue_offset
    else:
        return
    left = len(records)
    if left > behind - first:
        raise CorruptRecord(f"pull of offsets {first} to {behind} brought {left} records")
    last = first - 1
    for record in records:
        left -= 1
        said = record.queue_offset
        if not last < said < behind - left:
            record.queue_offset = last + 1
            log.warning(
                "message with a wrong offset queue=%s offset=%d position=%d: its record says %d",
                record.queue,
                record.queue_offset,
                record.position,
                said,
            )
        last = record.queue_offset
