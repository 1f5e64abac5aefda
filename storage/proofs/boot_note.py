"""A note of how far the log was written in this boot of the machine.

When a process dies, the page cache keeps what it has written; when the machine dies, it does not.
So a position noted together with the kernel's boot id proves, while that id lasts, that all of the
log before it is in the files. Of queues it says nothing: their newest entries are in memory.
The page is `BOOT_NOTE_FIELDS`.

A device that lost its cache while the machine ran (pulled out, unmounted by force) must have been
mounted again: the note counts for one mount only.

The two notes are written in turn, after every commit: one that a kill has torn does not match its
complement, and the other is as old as one commit. After a failed sync both are wiped, and the word
"DOUBTED!" and a position i64 follow them: from there on the disk may not have what is in the files.
Behind that stand the words of the syncs that are under way (syncs.py).
"""

import mmap
from contextlib import suppress
from pathlib import Path
from typing import Final

from aerobee.storage.disk.files import Files
from aerobee.storage.layout import BOOT_NOTE, BOOT_NOTE_FIELDS
from aerobee.storage.proofs.syncs import SAID, SYNCS, SYNCS_AT, Syncs, Unheard, unheard

BOOT_NOTE_BYTES: Final = 4096
BOOT_ID_BYTES: Final = BOOT_NOTE_FIELDS.behind("boot_id")

_MOUNT_AT: Final = BOOT_NOTE_FIELDS.at("device")
_MOUNT: Final = BOOT_NOTE_FIELDS.run("device", "mount")
_FIRST_AT: Final = BOOT_NOTE_FIELDS.at("first_position")
_OTHER_NOTE: Final = _FIRST_AT ^ BOOT_NOTE_FIELDS.at("second_position")
_NOTE: Final = BOOT_NOTE_FIELDS.run("first_position", "first_complement")
_NOTES_BYTES: Final = 2 * _NOTE.size
_DOUBT_AT: Final = BOOT_NOTE_FIELDS.at("doubt")
_DOUBT: Final = BOOT_NOTE_FIELDS.run("doubt", "doubt_position")
_DOUBTED: Final = b"DOUBTED!"
_CLOSED: Final = mmap.mmap(-1, BOOT_NOTE_BYTES)


class BootNote:
    """Keeps the note of one open store; `note` is cheap enough to follow every commit."""

    def __init__(self, files: Files, root: Path) -> None:
        self._files = files
        self._path = root / BOOT_NOTE
        self._root = root
        self._boot = files.boot_id()
        self._map: mmap.mmap = _CLOSED
        self._slot = _FIRST_AT
        self._pack = _NOTE.pack_into
        self._found: Unheard | None = None
        self._looked = False
        self.syncs = Syncs()

    def read(self) -> int | None:
        """Return the position that is proven, None if there is no note of this boot."""
        return _latest(self._page())

    def unheard(self) -> Unheard | None:
        """Return which syncs of earlier processes nobody has heard the end of, None for none.

        That is looked up once: `leave_in_doubt` says something else then. Another mount, as of a
        container that was made anew, ends the proof and not the doubt: memory may be the same.
        """
        if not self._looked:
            self._looked = True
            data = self._page(of_this_mount=False)
            position = _latest(data)
            if position is not None or _is_words_alone(data):
                found = unheard(data)
                if position is not None and found.log is not None and found.log >= position:
                    found = Unheard(None, found.queues)  # the disk has all of it
                self._found = found if found != (None, None) else None
        return self._found

    def leave_in_doubt(self, position: int) -> None:
        """Say for a start, until `open`, that log and queues behind `position` are under way.

        What it syncs an earlier process may have written. Changes nothing but a page of this boot;
        the first start of a boot makes one that has no note, and says so of the queues alone: it
        writes entries, and syncs them before it may begin a note.
        """
        data = self._page(of_this_mount=False)
        words = Syncs()
        words.queues_begin(position)
        if not data:
            with suppress(OSError):  # a disk that is full is read, and served, all the same
                self._put_page(words)
            return
        if _latest(data) is None:
            return
        words.log_begins(position)
        fd = self._files.open(self._path)
        try:
            self._files.write(fd, words.pack(), SYNCS_AT)
        finally:
            self._files.close(fd)

    def doubted(self) -> int | None:
        """Return from where on a process of this boot has doubted the disk, None for no doubt."""
        data = self._page()
        if not data:
            return None
        word, position = _DOUBT.unpack_from(data, _DOUBT_AT)
        return max(0, position) if word == _DOUBTED else None

    def _page(self, *, of_this_mount: bool = True) -> bytes:
        """Return what the file holds, nothing if it is not of this boot and mount.

        Where nothing names the boot, a page proves nothing, and counts as of any mount.
        """
        data = self._files.read_all(self._path, BOOT_NOTE_BYTES) or b""
        if len(data) < BOOT_NOTE_BYTES or not data.startswith(self._boot):
            return b""
        if not of_this_mount:
            return data
        ours = len(self._boot) == BOOT_ID_BYTES and data[_MOUNT_AT:_FIRST_AT] == self._mount()
        return data if ours else b""

    def _mount(self) -> bytes:
        return _MOUNT.pack(*(number % 2**64 for number in self._files.mount(self._root)))

    def open(self, position: int) -> None:
        """Begin a fresh file with one note; it takes the old one's place in one step."""
        self.close()
        note = _NOTE.pack(position, ~position)
        self._map = made = self._put_page(self.syncs, note + note)
        self.syncs.attach(made)

    def _put_page(self, words: Syncs, notes: bytes = bytes(_NOTES_BYTES)) -> mmap.mmap:
        """Put a page of this boot into place, and return its map."""
        fresh = self._path.with_name(f"{BOOT_NOTE}.tmp")
        self._files.remove(fresh)
        fd = self._files.open(fresh, create=True)
        try:
            page = bytearray(BOOT_NOTE_BYTES)
            page[: len(self._boot)] = self._boot
            page[_MOUNT_AT:_FIRST_AT] = self._mount()
            page[_FIRST_AT:_DOUBT_AT] = notes
            page[SYNCS_AT : SYNCS_AT + SYNCS.size] = words.pack()
            self._files.write(fd, bytes(page), 0)
            made = self._files.map(fd, BOOT_NOTE_BYTES, write=True)
        finally:
            self._files.close(fd)
        self._files.replace(fresh, self._path)
        return made

    def note(self, position: int) -> None:
        """Note that everything before `position` has been written to the log."""
        slot = self._slot
        self._pack(self._map, slot, position, ~position)
        self._slot = slot ^ _OTHER_NOTE

    def doubt(self, position: int) -> None:
        """End the proof, in memory only: nothing more is noted until `open`."""
        _DOUBT.pack_into(self._map, _DOUBT_AT, _DOUBTED, position)
        self._map[_FIRST_AT:_DOUBT_AT] = bytes(_NOTES_BYTES)
        self.close()

    def remove(self) -> None:
        """Withdraw the note."""
        self.close()
        self._files.remove(self._path)

    def close(self) -> None:
        """Let go of the file."""
        self.syncs.detach()
        self._map = _CLOSED


def _is_words_alone(page: bytes) -> bool:
    """Whether a page is one that a start has made before it could note anything."""
    said, word = page[SYNCS_AT : SYNCS_AT + len(SAID)], page[_DOUBT_AT : _DOUBT_AT + len(_DOUBTED)]
    return said == SAID and word != _DOUBTED


def _latest(page: bytes) -> int | None:
    """Return the larger position of the notes that are whole."""
    notes = _NOTE.iter_unpack(page[_FIRST_AT:_DOUBT_AT])
    return max((position for position, other in notes if other == ~position), default=None)
