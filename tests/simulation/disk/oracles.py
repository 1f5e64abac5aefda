"""What must hold of a store on a disk that fails; the first thing that does not ends the run."""

import re
from enum import StrEnum
from typing import Final

from aerobee.remoting.message.layout import BLANK_SIZE
from aerobee.storage.layout import ABORT, BOOT_NOTE, COMMIT_LOG, ENTRY_BYTES, MENDING, PROGRESS
from aerobee.storage.proofs.boot_note import BOOT_NOTE_BYTES
from aerobee.storage.proofs.progress import PROGRESS_BYTES_MAX, Progress, decode_progress
from aerobee.storage.proofs.syncs import unheard
from aerobee.storage.queues.files import ENTRY
from aerobee.storage.store import MessageStore
from aerobee.storage.verify import verify
from simulation.disk.book import Book, Key, Sent
from simulation.disk.machine import Machine
from simulation.disk.names import Folder
from simulation.disk.pages import Inode

ENTRY_OF: Final = re.compile(r"(\S+)-(\d+) offset (\d+): the entry says")
RECORD_AT: Final = re.compile(r" at (\d+)")
IN_MEMORY: Final = re.compile(r"(.+)-(\d+) offset (\d+): the record at \d+ has no queue entry$")
SPAN: Final = re.compile(r"bytes (\d+) to (\d+) are no records")


class Kind(StrEnum):
    """What a run must keep."""

    LOST = "what was promised to outlive its death is on the disk"
    GONE = "every record that the disk holds soundly can be read"
    WRONG = "a queue gives what was sent to it, at its offset"
    PROOF = "what is called durable is, and each start takes the best proof that it may"
    STUCK = "on a disk that is well, the store takes messages and notes its progress"
    UNCLEAN = "a recovered store passes `verify`"
    ERROR = "no code meets an error that it does not expect"


class Violated(Exception):
    """Something that must not happen."""

    def __init__(self, kind: Kind, what: str) -> None:
        super().__init__(f"[{kind.name}] {what}")
        self.kind = kind


class Oracle:
    """Compares what the book says with what the disk has and what the store gives."""

    def __init__(self, machine: Machine, book: Book) -> None:
        self._machine = machine
        self._book = book
        self._entry_files: dict[Inode, bytes] = {}

    # --- the disk ---

    def logs(self) -> dict[str, bytes]:
        """Return the log files as processes see them."""
        folder = self._machine.top.entries.get(COMMIT_LOG)
        if not isinstance(folder, Folder):
            return {}
        return {
            name: node.cached() for name, node in folder.entries.items() if isinstance(node, Inode)
        }

    def sound(self, sent: Sent, logs: dict[str, bytes]) -> bool:
        """Whether a message's record is whole, where it was put."""
        return self.bytes_at(sent, logs) == sent.record

    def bytes_at(self, sent: Sent, logs: dict[str, bytes]) -> bytes:
        """Return what the log has where a message was put."""
        name, at = self._book.file_of(sent)
        return logs.get(name, b"")[at : at + sent.size]

    def on_disk(self, sent: Sent) -> bool:
        """Whether a record would outlive a loss of power, for sure."""
        folder = self._machine.top.durable.get(COMMIT_LOG)
        name, at = self._book.file_of(sent)
        node = folder.durable.get(name) if isinstance(folder, Folder) else None
        return isinstance(node, Inode) and node.durable[at : at + sent.size] == sent.record

    def promise(self, flushed: int, begin: int) -> None:
        """Take what the store calls durable for promised, and look whether it is."""
        for sent in list(self._book.messages.values()):
            if sent.end > flushed or sent.position < begin or sent.promised or sent.damaged:
                continue
            sent.promised = True
            if not self.on_disk(sent) and sent.position not in self._book.flipped:
                raise Violated(Kind.PROOF, f"{sent} is called durable, below {flushed}, and is not")

    def check_promises(self, logs: dict[str, bytes], begin: int, *, died: bool) -> None:
        """See that the disk has what was promised, after whatever end of the process."""
        for sent in self._book.alive():
            if sent.position < begin or sent.position in self._book.flipped:
                continue
            due = sent.promised or (died and sent.acknowledged)
            if due and not self.sound(sent, logs):
                raise Violated(Kind.LOST, f"{sent}, which was promised, is not on the disk")

    def check_progress(self, begin: int, *, durable: bool = False) -> None:
        """See that the note of our progress, if there is one, tells the truth."""
        progress = self.progress()
        if progress is None:
            return
        self._entry_files.clear()
        logs = self.logs()
        for sent in self._book.alive():
            if sent.position < begin or sent.end > progress.position:
                continue
            if sent.position in self._book.flipped:
                continue
            if not self.sound(sent, logs) or (durable and not self.on_disk(sent)):
                raise Violated(Kind.PROOF, f"{sent} is below the progress {progress.position}")
        mending = self._note(MENDING)
        for (topic, queue_id), max_offset in sorted(progress.queues.items()):
            if mending is not None and (topic, queue_id) in mending.queues and not durable:
                continue  # a start was killed that was writing it again; the next one does so, too
            self._check_queue(Key(topic, queue_id), max_offset, progress, begin, durable=durable)

    def _check_queue(
        self, key: Key, max_offset: int, progress: Progress, begin: int, *, durable: bool
    ) -> None:
        mine = [sent for sent in self._book.alive() if sent.key == key and sent.position >= begin]
        for sent in mine:
            if sent.offset >= max_offset:
                continue
            what = f"the progress says that {key} has {max_offset} entries"
            if sent.end > progress.position:
                raise Violated(Kind.PROOF, f"{what}, of which {sent} is behind {progress.position}")
            if self._entry(sent, durable=durable) != (sent.position, sent.size):
                raise Violated(Kind.PROOF, f"{what}; the disk has none for {sent}")

    def _entry(self, sent: Sent, *, durable: bool) -> tuple[int, int]:
        """Return position and size that the files have for a message."""
        path = f"consumequeue/{sent.key.topic}/{sent.key.queue_id}"
        folder = self._machine.top.find(path)
        files = folder.durable if durable and isinstance(folder, Folder) else {}
        if isinstance(folder, Folder) and not durable:
            files = folder.entries
        at = sent.offset * ENTRY_BYTES
        for name in sorted(files, reverse=True):
            node = files[name]
            if isinstance(node, Inode) and int(name) <= at:
                if node not in self._entry_files:
                    self._entry_files[node] = bytes(node.durable) if durable else node.cached()
                data = self._entry_files[node]
                begin = at - int(name)
                if begin + ENTRY_BYTES <= len(data):
                    position, size, _ = ENTRY.unpack_from(data, begin)
                    return position, size
                break
        return -1, -1

    def progress(self) -> Progress | None:
        """Return our progress as processes would find it."""
        return self._note(PROGRESS)

    def _note(self, name: str) -> Progress | None:
        node = self._machine.top.entries.get(name)
        data = node.cached()[:PROGRESS_BYTES_MAX] if isinstance(node, Inode) else b""
        return decode_progress(data) if data else None

    def proves_nothing(self, begin: int) -> bool:
        """Whether a process that died leaves no proof of anything behind the log's begin.

        A round over the queues was under way, so that their entries count from where the progress
        was noted; and the log has let its files up to there go since, for want of space.
        """
        progress, node = self.progress(), self._machine.top.entries.get(BOOT_NOTE)
        if progress is None or progress.position >= begin or not isinstance(node, Inode):
            return False
        page = node.cached()
        said = unheard(page) if len(page) >= BOOT_NOTE_BYTES else None  # power takes what it had
        return said is not None and said.queues is not None and said.queues < begin

    def aborted(self) -> bool:
        """Whether the last user of the store did not stop it cleanly."""
        return ABORT in self._machine.top.entries

    # --- the store ---

    def check_recovered(self, store: MessageStore, logs: dict[str, bytes]) -> None:
        """See that a store gives all that the disk had soundly, and nothing that was never sent."""
        begin = store.commit_log.begin
        for sent in self._book.messages.values():
            sent.damaged |= sent.position < begin or not self.sound(sent, logs)
        for sent in self._book.alive():
            if not self.readable(store, sent):
                raise Violated(Kind.GONE, f"{sent} was sound, and is not given; {store.recovered}")
        self._check_offsets(store, begin)

    def readable(self, store: MessageStore, sent: Sent) -> bool:
        """Whether a message is given at its offset."""
        queue = store.find_queue(*sent.key)
        if queue is None or not queue.min_offset <= sent.offset < queue.max_offset:
            return False
        if queue.entry(sent.offset)[:2] != (sent.position, sent.size):
            return False
        data = store.record_at(sent.position)
        return data is not None and bytes(data) == sent.record

    def _check_offsets(self, store: MessageStore, begin: int) -> None:
        for topic, numbers in store.topics().items():
            for queue_id in numbers:
                queue = store.find_queue(topic, queue_id)
                assert queue is not None
                for offset in range(queue.min_offset, queue.max_offset):
                    position, size, _ = queue.entry(offset)
                    if size == BLANK_SIZE or position < max(begin, self._book.aged):
                        continue
                    if position in self._book.flipped:
                        continue  # what it says of itself is not protected by its checksum
                    if any(span.begin <= position < span.end for span in store.damage):
                        continue  # it is lost, and given to nobody
                    sent = self._book.messages.get(position)
                    if sent is None or (sent.key, sent.offset) != ((topic, queue_id), offset):
                        what = f"{topic}-{queue_id} offset {offset} leads to {position}: {sent}"
                        raise Violated(Kind.WRONG, what)

    def check_verified(self, store: MessageStore) -> None:
        """See that `verify` complains of damage that there is, and of nothing else."""
        if not store._writing.done:
            return  # the disk refuses, so that nothing is mended yet
        report = verify(store.settings)
        unknown = [each for each in report.problems if not self._is_known(each, store)]
        if unknown:
            raise Violated(Kind.UNCLEAN, "; ".join(unknown[:3]))

    def _is_known(self, problem: str, store: MessageStore) -> bool:
        """Whether `verify` speaks of a span that the store knows, or that has lost records alone.

        A start that need not read the whole log does not know of a bit that flipped in it.
        """
        if entry := ENTRY_OF.match(problem):
            queue = store.find_queue(entry[1], int(entry[2]))
            if queue is not None and int(entry[3]) >= queue.max_offset:
                return True  # left over in a file behind the queue's end, which nobody reads
        if memory := IN_MEMORY.match(problem):
            queue = store.find_queue(memory[1], int(memory[2]))
            if queue is not None and queue.written <= int(memory[3]) < queue.max_offset:
                return True  # no round has written it out yet
        match = SPAN.search(problem)
        if match is None:  # an entry and its record do not agree: one of them has lost a bit
            return any(int(at) in self._book.flipped for at in RECORD_AT.findall(problem))
        begin, end = int(match[1]), int(match[2])
        if any((span.begin, span.end) == (begin, end) for span in store.damage):
            return True
        inside = [sent for at, sent in self._book.messages.items() if begin <= at < end]
        return bool(inside) and all(
            sent.damaged or sent.position in self._book.flipped for sent in inside
        )
