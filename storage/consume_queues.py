"""Every queue of the store by topic and number."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from aerobee.storage.consume_queue import ConsumeQueue
from aerobee.storage.files import Files
from aerobee.storage.layout import CONSUME_QUEUE, queue_paths
from aerobee.storage.settings import StoreSettings


class ConsumeQueues:
    """The table of queues; a queue exists in memory before its first message makes a file."""

    def __init__(self, files: Files, settings: StoreSettings, *, write: bool) -> None:
        self._files = files
        self._settings = settings
        self._write = write
        self.root = settings.root / CONSUME_QUEUE
        self.table: dict[tuple[str, int], ConsumeQueue] = {}

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(self.table.values())

    def __len__(self) -> int:
        return len(self.table)

    def load(self, known: Mapping[tuple[str, int], int]) -> None:
        """Find the queues on disk and their ends; below the offsets in `known` all is sound."""
        for topic, queue_id, _ in queue_paths(self._settings.root):
            self.get(topic, queue_id).load(known.get((topic, queue_id), 0))

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue if it exists."""
        return self.table.get((topic, queue_id))

    def get(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue, made on first use; nothing is written for it yet."""
        queue = self.table.get((topic, queue_id))
        if queue is None:
            queue = self.table[topic, queue_id] = ConsumeQueue(
                self._files,
                self._directory(topic, queue_id),
                topic,
                queue_id,
                self._settings.queue_file_entries,
                write=self._write,
            )
        return queue

    def _directory(self, topic: str, queue_id: int) -> Path:
        if not topic or "/" in topic or "\0" in topic or topic in (".", "..") or queue_id < 0:
            raise ValueError(f"{topic!r}, queue {queue_id}, cannot be the name of a queue")
        return self.root / topic / str(queue_id)

    def topics(self) -> dict[str, list[int]]:
        """Return the numbers of each topic's queues."""
        topics: dict[str, list[int]] = {}
        for topic, queue_id in sorted(self.table):
            topics.setdefault(topic, []).append(queue_id)
        return topics

    def delete_topic(self, topic: str) -> bool:
        """Remove the queues of a topic and their files; its messages stay until the log ages."""
        queues = [queue for queue in self.table.values() if queue.topic == topic]
        for queue in queues:
            del self.table[topic, queue.queue_id]
            self.remove_files(queue)
        if queues and self._write:
            self._files.remove_directory(self.root / topic)
        return bool(queues)

    def remove_files(self, queue: ConsumeQueue) -> None:
        """Remove a queue's files and directory."""
        queue.close()
        if not self._write:
            return
        for span in queue.spans():
            self._files.remove(span.path)
        self._files.remove_directory(queue.directory)

    def max_end_position(self) -> int:
        """Return up to where the log has certainly been dispatched: the end of the last entry."""
        return max((queue.end_position() for queue in self), default=0)

    def close(self) -> None:
        """Close all files."""
        for queue in self:
            queue.close()
