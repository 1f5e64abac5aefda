"""Putting messages into the log from anywhere but the fast path of single sends."""

from typing import Final, TypeAlias

from aerobee.broker.writing.placing import LightPlacer
from aerobee.broker.writing.queues import TopicQueue
from aerobee.broker.writing.stamps import TagHashes
from aerobee.broker.writing.tick import Tick
from aerobee.remoting.message.layout import AROUND_BYTES
from aerobee.remoting.message.properties import Property
from aerobee.storage.store import MessageStore

Message: TypeAlias = tuple[int, bytes | memoryview, bytes, int]
"""What differs between the messages of one request: flag, body, properties and tags code.

The properties end with their separator. A plain tuple, because a batch makes many.
"""


_FOR_LIGHT_QUEUES: Final = Property.INNER_MULTI_DISPATCH.encode() + b"\x01"


class Appender:
    """Appends one request's messages to one queue, all or none."""

    def __init__(self, store: MessageStore, tick: Tick) -> None:
        self._log = store.commit_log
        self._tick = tick
        self.tag_hashes = TagHashes()
        self.light: LightPlacer | None = None  # where there are light queues

    def append(
        self,
        queue: TopicQueue,
        sys_flag: int,
        born_timestamp: int,
        stamp: bytes,
        messages: list[Message],
    ) -> list[int]:
        """Give the messages offsets that follow each other; return their positions.

        `stamp` comes from Stamp.at. Raises the errors of CommitLog.append; then nothing has
        changed. The caller commits: see Tick.
        """
        log, stored, append = self._log, queue.stored, self._log.append
        fixed_bytes = AROUND_BYTES + len(stamp) + len(stored.prefix)
        log.require(sum([fixed_bytes + len(body) + len(tail) for _, body, tail, _ in messages]))
        start, first, mark = log.position, stored.max_offset, log.mark()
        try:
            positions = [
                append(stored, flag, sys_flag, born_timestamp, stamp, body, properties, tags_code)
                for flag, body, properties, tags_code in messages
            ]
        except BaseException:  # the queue's file cannot grow, in the middle of them
            log.take_back(mark, stored, first)
            raise
        queue.arrived_bytes += log.position - start
        if queue.holds:
            self._tick.woken.append(queue)
        return positions

    def append_again(
        self, queue: TopicQueue, sys_flag: int, born_timestamp: int, stamp: bytes, message: Message
    ) -> int:
        """Append a message that was acknowledged before; return its position.

        `maxMessageSize` may have become smaller since: it is for what is sent. One that names light
        queues gets its entries in them now.
        """
        flag, body, properties, tags_code = message
        self._log.body_bytes_max = max(self._log.body_bytes_max, len(body))
        entries = None
        if self.light is not None and _FOR_LIGHT_QUEUES in properties:
            entries = self.light.entries(queue, properties, tags_code)
        if entries is None:
            return self.append(queue, sys_flag, born_timestamp, stamp, [message])[0]
        message = (flag, body, entries.properties, tags_code)
        position = self.append(queue, sys_flag, born_timestamp, stamp, [message])[0]
        entries.appended()
        return position
