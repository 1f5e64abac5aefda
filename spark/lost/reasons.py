"""Why an export has not all messages of a queue: the words of its manifest's gaps."""

from __future__ import annotations

from typing import Final

RETENTION: Final = "the broker's retention deleted them before they were exported"
REWRITTEN: Final = "the store has other messages there now than were exported before, or none"
OLDER: Final = f"{REWRITTEN}; these are older than the last exported one, and left out as exported"
DELETED: Final = "their queue was deleted before they were exported"
UNCOUNTED: Final = (
    "the queue was deleted, and whether it had messages that were not exported nobody can tell, as"
    " the log does not reach back that far, or is another one"
)
ANOTHER: Final = frozenset({REWRITTEN, OLDER})  # the queue is not the one that was exported
