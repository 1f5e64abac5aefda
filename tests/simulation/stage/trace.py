"""What happened in a run, line by line, and a hash by which two runs are compared."""

import hashlib
from collections import deque
from collections.abc import Callable
from typing import Final

KEPT_LINES: Final = 400


class Trace:
    """Every event with its virtual time; the last lines are kept as text, all are hashed.

    `note` is for what a reader wants to see; `count` for what is only compared: bytes that arrive.
    """

    def __init__(self, now_s: Callable[[], float], echo: Callable[[str], object] | None) -> None:
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.events = 0
        self._now_s = now_s
        self._echo = echo
        self._hash = hashlib.blake2b(digest_size=12)

    def note(self, what: str) -> None:
        """Remember an event in words."""
        line = f"{self._now_s():10.4f}  {what}"
        self.lines.append(line)
        self.count(line.encode())
        if self._echo is not None:
            self._echo(line)

    def count(self, what: bytes) -> None:
        """Let an event enter the hash alone."""
        self.events += 1
        self._hash.update(b"%.7f " % self._now_s())
        self._hash.update(what)

    def digest(self) -> str:
        """Return the hash of all that happened so far."""
        return self._hash.hexdigest()
