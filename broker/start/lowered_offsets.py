"""Committed offsets that lie beyond what a store has: lowered before anybody is served.

A store can lose its end (power loss with ASYNC_FLUSH, damage), or be replaced by another. A group
that had committed further would miss every new message below its old offset, in silence.
RocketMQ leaves such offsets as they are.
"""

import logging
from collections import defaultdict
from pathlib import Path
from typing import Final

from aerobee.broker.tables.committed import OffsetTable
from aerobee.remoting.config.kept_files import replace_file
from aerobee.storage.store import MessageStore

log = logging.getLogger(__name__)

LINES_MAX: Final = 100
BEFORE: Final = ".lowered"


def lower_offsets(offsets: OffsetTable, store: MessageStore) -> int:
    """Lower each committed offset to the end of its queue, and return how many were.

    A queue that the store does not have ends at 0, where its next message goes; so it does where
    damage took all of it. Offsets of broadcasting members are kept under a name of their own, and
    are lowered, too. The file as it was is kept beside the new one, under its name and ".lowered":
    a store that was not mounted must not cost its groups their progress. The new one is on the disk
    on return, or an error says that it is not. One line per group says so, at most 100 of them.
    Nothing happens to a store that is only read.
    """
    if store.read_only:
        return 0
    beyond: dict[str, list[tuple[str, int, int, int]]] = defaultdict(list)
    for topic, group, queues in offsets.entries():
        for queue_id, offset in queues.items():
            queue = store.find_queue(topic, queue_id)
            end = queue.max_offset if queue is not None else 0
            if offset > end:
                beyond[group].append((topic, queue_id, offset, end))
    if not beyond:
        return 0
    kept = _keep(offsets.file.path)
    for number, (group, found) in enumerate(beyond.items()):
        for topic, queue_id, _, end in found:
            offsets.lower(group, topic, queue_id, end)
        topic, queue_id, offset, end = min(found)
        if number < LINES_MAX:
            log.error(
                "offsets_lowered group=%s queues=%d first=%s-%d from=%d to=%d kept=%s reason=%r",
                group, len(found), topic, queue_id, offset, end, kept,
                "the store ends before what the group has committed",
            )  # fmt: skip
    try:  # before a message comes: the next start must not find the old ones within the queues
        offsets.file.flush_now()
    except OSError as error:
        log.error("offsets_not_saved path=%s error=%s", offsets.file.path, error)
    if len(beyond) > LINES_MAX:
        log.error("offsets_lowered groups=%d not_named=%d", len(beyond), len(beyond) - LINES_MAX)
    return sum(map(len, beyond.values()))


def _keep(path: Path) -> Path | None:
    """Keep the file as it is under another name; None where that cannot be done."""
    try:
        copy = path.with_name(path.name + BEFORE)
        replace_file(copy, path.read_bytes())
    except OSError as error:
        log.error("offsets_not_kept path=%s error=%s", path, error)
        return None
    return copy
