"""Our note of deleted topics: a record before a topic's deletion is of a life that is over.

RocketMQ removes the queues of a topic and leaves its records in the log until they are old. Walked
again, they look like those of the topic that was made again since. The note says up to where they
do not count. It is optional: without it the order of offsets tells as much as it can.
"""

from pathlib import Path

from aerobee.storage.disk.files import Files
from aerobee.storage.layout import DELETED
from aerobee.storage.proofs.progress import Progress
from aerobee.storage.queues.topic_positions import TopicPositions


class Deleted(TopicPositions):
    """Where the log ended when each topic was deleted, until the log has nothing older."""

    def __init__(self, files: Files, root: Path) -> None:
        super().__init__(files, root / DELETED)

    def still_true(self, progress: Progress | None) -> Progress | None:
        """Return a progress without what it says of topics that were deleted after it."""
        if progress is None or not self._positions:
            return progress
        queues = {
            (topic, queue_id): offset
            for (topic, queue_id), offset in progress.queues.items()
            if progress.position > self.before(topic) or not self.before(topic)
        }
        return Progress(progress.position, progress.timestamp, queues)
