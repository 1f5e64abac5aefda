"""What a client is told that has pulled from a stretch of a logical queue (PullMessageProcessor).

A stretch that has come to its end sends its readers on to the next one.
"""

from typing import Final

import msgspec

from aerobee.broker.features.static_topics.mapped import LogicalQueue
from aerobee.broker.features.static_topics.stretches import (
    end_known,
    find,
    following,
    is_decided,
    logical,
)
from aerobee.remoting.bodies import LogicQueueMappingItem
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.headers.pull import PullMessageReply

AGAIN: Final = ResponseCode.PULL_RETRY_IMMEDIATELY
NOT_FOUND: Final = ResponseCode.PULL_NOT_FOUND
MOVED: Final = ResponseCode.PULL_OFFSET_MOVED


class Places(msgspec.Struct, frozen=True):
    """The code of a reply, and the physical offsets in it, of a stretch."""

    code: int
    item: LogicQueueMappingItem
    next_offset: int
    min_offset: int
    max_offset: int


def seen(queue: LogicalQueue, asked: int, found: Places) -> Places:
    """Return what a pull of a physical offset says of the logical queue, still in physical ones."""
    if found.code == ResponseCode.SUCCESS:
        return found
    oldest, item = find(queue.items, 0), found.item
    leads, first = item.gen == queue.leader.gen, oldest is not None and item.gen == oldest.gen
    if asked < found.min_offset:
        code = MOVED if first else AGAIN
        return msgspec.structs.replace(found, code=code, next_offset=found.min_offset)
    if leads:
        if asked > found.max_offset and found.code == MOVED:
            return msgspec.structs.replace(found, next_offset=found.max_offset)
        return found
    if asked < found.max_offset:
        return found
    next_item = following(queue.items, item)
    if next_item is None:  # it is about to be decided where the next one begins
        return msgspec.structs.replace(found, code=NOT_FOUND)
    start = next_item.start_offset
    return Places(AGAIN, next_item, start, start, start)


def as_logical(queue: LogicalQueue, places: Places, reply: PullMessageReply) -> PullMessageReply:
    """Return the header of a reply in logical offsets."""
    item, next_offset = places.item, places.next_offset
    if item.end_offset > item.start_offset:
        next_offset = min(next_offset, item.end_offset)
    end = end_known(queue.leader) if is_decided(queue.leader) else -1
    return msgspec.structs.replace(
        reply,
        next_begin_offset=logical(item, next_offset),
        min_offset=logical(item, places.min_offset),
        max_offset=max(logical(item, places.max_offset), end),
        offset_delta=item.logic_offset - item.start_offset,
    )
