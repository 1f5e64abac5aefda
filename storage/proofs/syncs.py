"""Which syncs nobody has heard the end of: two words in the boot note's page.

The kernel may drop what it could not write, and says so once, to the process that asked. Where that
is killed before it has heard, nothing but these words can tell the next one: they are set before a
sync begins, and taken back when its success has been heard. They stand behind "SYNCSAID" in
`BOOT_NOTE_FIELDS`.

`log` is the complement of the position behind which the log may be under way to the disk, 0 for
none; `queues` says the same of the entries of records behind a position, while a round over the
queues is under way. Each is one aligned store of 8 bytes, once in a round: no kill can tear it, and
messages pay nothing for it.
"""

import mmap
import sys
from typing import Final, NamedTuple

from aerobee.storage.layout import BOOT_NOTE_FIELDS

SYNCS_AT: Final = BOOT_NOTE_FIELDS.at("said")
SYNCS: Final = BOOT_NOTE_FIELDS.run("said", "queues")
SAID: Final = b"SYNCSAID"

_LOG: Final = 0
_QUEUES: Final = 1
_WORDS: Final = slice(BOOT_NOTE_FIELDS.at("log"), BOOT_NOTE_FIELDS.behind("queues"))
_NOWHERE: Final = memoryview(bytearray(_WORDS.stop - _WORDS.start)).cast("Q")


class Unheard(NamedTuple):
    """The syncs whose outcome a killed process had not heard."""

    log: int | None  # what lies behind is in doubt, None: no sync of the log was under way
    queues: int | None  # the same for the entries of what lies behind


class Syncs:
    """The words of one process; they are kept while no page is open, and put into the next one."""

    def __init__(self) -> None:
        self._words = [0, 0]
        self._page = _NOWHERE

    def log_begins(self, position: int) -> None:
        """Say that a sync of the log begins; the disk has what lies before `position`."""
        self._say(_LOG, _word(~position))

    def log_ended(self) -> None:
        """Say that the log is under way no longer: the success of all its syncs was heard."""
        self._say(_LOG, 0)

    def queues_begin(self, position: int) -> None:
        """Say that a round over the queues begins; the disk has all entries of what lies before."""
        self._say(_QUEUES, _word(~position))

    def queues_ended(self) -> None:
        """Say that the round has ended, and that none of its syncs has failed."""
        self._say(_QUEUES, 0)

    def _say(self, which: int, word: int) -> None:
        self._words[which] = word
        self._page[which] = word

    def pack(self) -> bytes:
        """Return the words as a page has them."""
        return SAID + b"".join(word.to_bytes(8, sys.byteorder) for word in self._words)

    def attach(self, page: mmap.mmap) -> None:
        """Speak in this page from now on."""
        self._page = memoryview(page)[_WORDS].cast("Q")

    def detach(self) -> None:
        """Speak in no page until the next `attach`."""
        self._page = _NOWHERE


def unheard(page: bytes) -> Unheard:
    """Read the words of a page; one of a version that had none leaves everything in doubt."""
    said, log, queues = SYNCS.unpack_from(page, SYNCS_AT)
    if said != SAID:
        return Unheard(0, 0)
    return Unheard(*(max(0, ~word) if word else None for word in (log, queues)))


def _word(value: int) -> int:
    """Return the number whose bytes in memory are those of `value`, big-endian."""
    return int.from_bytes(value.to_bytes(8, "big", signed=True), sys.byteorder)
