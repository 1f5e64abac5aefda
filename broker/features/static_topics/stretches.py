"""The stretches of a logical queue, oldest first: offsets there and back, and what must hold.

The last one leads: its broker takes messages. Its logical offset may be -1 for a moment, while it
is not known where the one before ended. TopicQueueMappingUtils and LogicQueueMappingItem.
"""

from collections.abc import Sequence
from itertools import pairwise

from aerobee.remoting.bodies import LogicQueueMappingItem
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError

Item = LogicQueueMappingItem


def is_decided(item: Item) -> bool:
    """Whether it is known where a stretch begins."""
    return item.logic_offset >= 0


def logical(item: Item, offset: int) -> int:
    """Return the logical offset of a physical one; the stretch's first for those before it."""
    return item.logic_offset + max(offset - item.start_offset, 0)


def logical_loosely(item: Item, offset: int) -> int:
    """Return the same, -1 where it is not decided, and no more than where the stretch ends."""
    if not is_decided(item):
        return -1
    if item.start_offset <= item.end_offset < offset:
        offset = item.end_offset
    return logical(item, offset)


def physical(item: Item, offset: int) -> int:
    """Return the physical offset of a logical one."""
    return offset - item.logic_offset + item.start_offset


def end_known(item: Item) -> int:
    """Return the logical offset where a stretch ends, as far as it says so itself."""
    if item.end_offset < item.start_offset:
        return item.logic_offset
    return item.logic_offset + item.end_offset - item.start_offset


def find(items: Sequence[Item], offset: int) -> Item | None:
    """Return the stretch that has a logical offset; the oldest, where it is before all of them."""
    decided = [item for item in items if is_decided(item)]
    for item in reversed(decided):
        if offset >= item.logic_offset:
            return item
    return decided[0] if decided else None


def following(items: Sequence[Item], item: Item) -> Item | None:
    """Return the next stretch, None where it is not decided or there is none."""
    for one, other in pairwise(items):
        if one.gen == item.gen:
            return other if is_decided(other) else None
    return None


def check(items: Sequence[Item]) -> None:
    """Refuse stretches that overlap, or make no sense."""
    younger: Item | None = None
    for item in reversed(items):
        if item.start_offset < 0 or item.gen < 0 or item.queue_id < 0:
            raise refused("The field is illegal, should not be negative")
        if younger is not None:
            if not is_decided(item):
                raise refused("The non-latest item has negative logic offset")
            if item.gen >= younger.gen:
                raise refused("The gen does not increase monotonically")
        if item.end_offset not in (-1, max(item.end_offset, item.start_offset)):
            raise refused("The endOffset is smaller than the start offset")
        if younger is not None and is_decided(younger):
            if item.logic_offset >= younger.logic_offset:
                raise refused("The base logic offset does not increase monotonically")
            if end_known(item) >= younger.logic_offset:
                raise refused("The max logic offset does not increase monotonically")
        younger = item


def check_follows(old: Sequence[Item], new: Sequence[Item], *, same_epoch: bool) -> None:
    """Refuse stretches in the place of others of which they change what is decided."""
    if not old:
        return
    if not new:
        raise refused("The new item list is null or empty")
    known = {item.gen: item for item in old}
    for item in new:
        was = known.get(item.gen)
        if was is None:
            continue
        place = item.bname, item.queue_id, item.start_offset
        if place != (was.bname, was.queue_id, was.start_offset):
            raise refused(f"generation {item.gen} was queue {was.queue_id} of {was.bname}")
        if is_decided(was) and item.logic_offset != was.logic_offset:
            raise refused(f"generation {item.gen} begins at {was.logic_offset} already")
    if same_epoch and _place(new[-1]) != _place(old[-1]):
        raise refused("The new leader is different but epoch equal")


def _place(item: Item) -> tuple[int, str, int, int]:
    return item.gen, item.bname, item.queue_id, item.start_offset


def refused(what: str) -> RequestError:
    """Refuse a mapping in RocketMQ's words."""
    return RequestError(ResponseCode.SYSTEM_ERROR, what)
