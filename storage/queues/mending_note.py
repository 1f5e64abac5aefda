"""Which queues are being written again, for a start that comes after a kill."""

import logging
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from aerobee.storage.disk.files import Files
from aerobee.storage.disk.replacing import replace_file, write_anew
from aerobee.storage.layout import MENDING
from aerobee.storage.proofs.progress import (
    PROGRESS_BYTES_MAX,
    Progress,
    decode_progress,
    encode_progress,
)
from aerobee.storage.queues.consume_queue import ConsumeQueue

log = logging.getLogger(__name__)


class MendingNote:
    """Says which queues are being written again, until the disk has all of their entries.

    Without it a power cut in between could leave a queue whose last entry is there, and not all
    before it; the next start looks at the last one alone. The file is a progress file without
    positions; that it cannot be written keeps nobody from mending.
    """

    def __init__(self, files: Files, root: Path) -> None:
        self._files = files
        self._path = root / MENDING

    def read(self) -> Collection[tuple[str, int]]:
        """Return the queues that an earlier start did not finish."""
        data = self._files.read_all(self._path, PROGRESS_BYTES_MAX)
        noted = decode_progress(data) if data else None
        return noted.queues if noted is not None else ()

    def take_over(self, queues: Collection[ConsumeQueue]) -> None:
        """Write anew, as they read, the files of queues that an earlier start did not finish.

        A sync of theirs may have failed: then memory has entries that count as clean and that the
        disk never got, and no later sync would say so. What was dropped already reads as the disk
        has it, and is found by whoever looks whether the entries prove themselves.
        """
        for queue in queues:
            queue.close()
            for span in queue.spans():
                write_anew(self._files, span, 0, sync=False)

    def begin(self, queues: Collection[ConsumeQueue]) -> None:
        """Note them, durably, if that can be done."""
        try:
            self.note(queues)
        except OSError as error:
            log.warning("queues_mended_without_note path=%s error=%s", self._path, error)

    def note(self, queues: Collection[ConsumeQueue]) -> None:
        """Have the next start write them again; OSError: it will not."""
        noted = Progress(0, 0, {(queue.topic, queue.queue_id): 0 for queue in queues})
        replace_file(self._files, self._path, encode_progress(noted))

    def end(self, queues: Collection[ConsumeQueue]) -> None:
        """Bring their entries to the disk, and take the note away."""
        for queue in queues:
            queue.write_out()
            for span in queue.spans():
                fd = self._files.open(span.path)
                try:
                    self._files.sync(fd)
                finally:
                    self._files.close(fd)
            with suppress(FileNotFoundError):  # of a queue that has no file
                self._files.sync_directory(queue.directory)
        self._files.remove(self._path)
