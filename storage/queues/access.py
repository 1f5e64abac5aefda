"""How all queues of one store are reached."""

from typing import TYPE_CHECKING

import msgspec

from aerobee.storage.disk.files import Files
from aerobee.storage.queues.map_pool import MapPool
from aerobee.storage.queues.tail_pool import TailPool

if TYPE_CHECKING:
    from aerobee.storage.queues.consume_queue import ConsumeQueue


class QueueAccess(msgspec.Struct, frozen=True):
    """By which door, in files of how many entries, with how much memory; who has changed.

    `refused` has the queues whose files could not be made or written when that was tried last, and
    why: they take no more messages until it is tried again.
    """

    files: Files
    file_entries: int
    write: bool = True
    pool: MapPool = msgspec.field(default_factory=MapPool)
    tails: TailPool = msgspec.field(default_factory=TailPool)
    changes: "list[ConsumeQueue]" = msgspec.field(default_factory=list)
    refused: "dict[ConsumeQueue, OSError]" = msgspec.field(default_factory=dict)
