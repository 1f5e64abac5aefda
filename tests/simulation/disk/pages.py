"""One file as the machine's memory has it, and as the disk has it, page by page.

What processes write goes to memory alone: here a real file on tmpfs, so that maps of it work. A
sync carries pages to the disk; without one, a page arrives or not, whole or in sectors.
"""

import errno
import os
from dataclasses import dataclass
from random import Random
from typing import Final

PAGE_BYTES: Final = 4096
SECTOR_BYTES: Final = 512

_ZEROS: Final = bytes(PAGE_BYTES)


@dataclass(frozen=True, slots=True)
class Picture:
    """The dirty pages of a file at one moment, and its size."""

    number: int
    size: int
    pages: dict[int, bytes]


class Inode:
    """A file, whatever its names are; `fd` is a number of its own for the content in memory."""

    def __init__(self, fd: int, durable: bytes = b"") -> None:
        self.fd = fd
        self.durable = bytearray(durable)
        self.lost: dict[int, bytes] = {}  # pages that a failed sync took for clean, as they were
        self.space: set[int] = set()  # pages that have disk space
        self.modified_s = 0.0
        self.failed = False  # a sync of everything did, and nobody was told that it was this file
        self.grown = True  # its length may be another than at the last `keep_size`
        self._numbers: dict[int, int] = {}  # of the newest picture of each page on the disk
        self._size_number = 0
        self._pictures = 0

    @property
    def size(self) -> int:
        """The length that processes see."""
        return os.fstat(self.fd).st_size

    def cached(self) -> bytes:
        """Return what processes see."""
        return os.pread(self.fd, self.size, 0)

    def durable_page(self, page: int) -> bytes:
        """Return a page as the disk has it, zeros where it has none."""
        return bytes(self.durable[page * PAGE_BYTES : (page + 1) * PAGE_BYTES])

    def picture(self) -> Picture:
        """Return what a sync that begins now has to write."""
        self._pictures += 1
        data = self.cached()
        pages: dict[int, bytes] = {}
        if data != self.durable:
            for page in range((len(data) + PAGE_BYTES - 1) // PAGE_BYTES):
                now = data[page * PAGE_BYTES : (page + 1) * PAGE_BYTES]
                if _differs(now, self.durable_page(page)) and self.lost.get(page) != now:
                    pages[page] = now
        return Picture(self._pictures, len(data), pages)

    def keep(self, picture: Picture) -> None:
        """Let the disk have a picture, but for what it has newer."""
        if picture.number > self._size_number:
            self._size_number = picture.number
            self._resize(picture.size)
        for page, data in picture.pages.items():
            if picture.number > self._numbers.get(page, 0):
                self._numbers[page] = picture.number
                self._keep_page(page, data)

    def keep_size(self) -> None:
        """Let the disk know how long the file is."""
        if not self.grown:
            return
        self.grown = False
        self._pictures += 1
        self._size_number = self._pictures
        self._resize(self.size)

    def _resize(self, size: int) -> None:
        del self.durable[size:]
        self.durable.extend(bytes(size - len(self.durable)))

    def _keep_page(self, page: int, data: bytes) -> None:
        at = page * PAGE_BYTES
        if len(self.durable) < at + len(data):
            self.durable.extend(bytes(at + len(data) - len(self.durable)))
        self.durable[at : at + len(data)] = data
        self.lost.pop(page, None)

    def keep_some(self, dice: Random) -> None:
        """Let some dirty pages reach the disk unasked, as the kernel's flusher threads do."""
        picture = self.picture()
        chosen = {page: data for page, data in picture.pages.items() if dice.random() < 0.5}
        for page, data in chosen.items():
            self._numbers[page] = picture.number
            self._keep_page(page, data)

    def fail(self, picture: Picture, dice: Random) -> None:
        """Fail a sync as Linux does: what was not written counts as clean, and stays in memory."""
        pages = [page for page, data in picture.pages.items() if data != self.durable_page(page)]
        unlucky = dice.choice(pages) if pages else -1
        for page in pages:
            if page == unlucky or dice.random() < 0.5:
                self.lost[page] = picture.pages[page]
            elif picture.number > self._numbers.get(page, 0):
                self._numbers[page] = picture.number
                self._keep_page(page, picture.pages[page])

    def tell(self) -> None:
        """Raise what an earlier sync of everything met here, once."""
        if self.failed:
            self.failed = False
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def evict(self, dice: Random | None = None, pages: range | None = None) -> int:
        """Forget pages that count as clean and were never written; return how many."""
        gone = 0
        for page, data in list(self.lost.items()):
            if dice is not None and dice.random() < 0.5:
                continue
            if pages is not None and page not in pages:
                continue
            at = page * PAGE_BYTES
            now = os.pread(self.fd, PAGE_BYTES, at)
            del self.lost[page]
            if now == data:
                os.pwrite(self.fd, self.durable_page(page).ljust(len(now), b"\0")[: len(now)], at)
                gone += 1
        return gone

    def after_power_loss(self, dice: Random, share: float) -> bytes:
        """Return what the disk has when the machine starts again.

        Of each dirty page it has the old or the new bytes, or sectors of both; `share` of them
        are new. A size that was not synced is the old one or the new one.
        """
        picture = self.picture()
        found = bytearray(self.durable)
        if picture.size > len(found) and dice.random() < 0.5:
            found.extend(bytes(picture.size - len(found)))
        for page, data in picture.pages.items():
            if page * PAGE_BYTES >= len(found) or dice.random() >= share:
                continue
            at = page * PAGE_BYTES
            room = len(found) - at
            if dice.random() < 0.7:
                found[at : at + min(len(data), room)] = data[:room]
                continue
            for begin in range(0, min(len(data), room), SECTOR_BYTES):
                if dice.random() < 0.5:
                    end = min(begin + SECTOR_BYTES, len(data), room)
                    found[at + begin : at + end] = data[begin:end]
        return bytes(found)


def _differs(now: bytes, before: bytes) -> bool:
    """Whether a page has changed; what the disk does not have yet counts as zeros."""
    return now != before and now != before.ljust(len(now), b"\0")
