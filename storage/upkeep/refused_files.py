"""Files of queues that cannot be made or written, and who takes no messages meanwhile."""

import errno
from collections.abc import Callable, Collection
from functools import partial
from itertools import islice
from typing import Final

from aerobee.storage.disk.open_files import OUT_OF_NUMBERS
from aerobee.storage.errors import AppendRefused
from aerobee.storage.queues.consume_queue import ConsumeQueue

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""What a disk says of itself by refusing one file: the next one would be refused, too."""

OnRefused = Callable[[Callable[[], AppendRefused] | None], None]
"""Takes what says why no message is taken, None when they are again."""


class RefusedFiles:
    """Since a round was refused a file, until it is not; what was to be written is in memory.

    A queue whose file is refused takes no more messages. Where the disk has no room, no queue does,
    until a round has met room for all: `on_refused` is told.
    """

    def __init__(self, queues: dict[ConsumeQueue, OSError], on_refused: OnRefused) -> None:
        self._queues = queues
        self._on_refused = on_refused
        self._wanting: tuple[ConsumeQueue, OSError] | None = None  # room, when it was tried last
        self.met = False  # a disk without room, since the last round began

    @property
    def no_room(self) -> bool:
        """Whether the disk had no room for a file, and no round has met room for all since."""
        return self._wanting is not None

    def add(self, queue: ConsumeQueue, error: OSError) -> bool:
        """Take note of a refused file; whether that is news."""
        if error.errno in OUT_OF_NUMBERS:  # no word of the disk's
            return True
        news = queue not in self._queues
        self._queues[queue] = error
        if error.errno in NO_ROOM:
            self._wanting, self.met = (queue, error), True
            self._on_refused(partial(queue.refusal, error, "a"))
        return news

    def remove(self, queue: ConsumeQueue) -> None:
        """A queue is written, or will not be."""
        self._queues.pop(queue, None)

    def has_room(self) -> bool:
        """Write the file for which there was none; as long as that fails no other is tried."""
        if self._wanting is None:
            return True
        queue, _ = self._wanting
        try:
            queue.write_out()
        except OSError as error:
            if error.errno in NO_ROOM:
                self._wanting = queue, error
                return False
        return True

    def room_met(self) -> None:
        """No file wants room any more."""
        if self._wanting is not None:
            self._wanting = None
            self._on_refused(None)

    def end(self) -> None:
        """No round comes any more that could write them: messages are taken as memory has room."""
        self._queues.clear()
        self.room_met()

    def told(self, count: int) -> Collection[AppendRefused]:
        """Say which files are refused, at most so many of them and the one without room."""
        found = {} if self._wanting is None else dict([self._wanting])
        found |= islice(self._queues.items(), count)
        return [queue.refusal(error) for queue, error in found.items()]
