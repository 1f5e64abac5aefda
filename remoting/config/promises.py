"""Keys of RocketMQ that somebody relies on, where a server could not do what they say.

A key without effect is harmless where it tunes what works without it. One that asks for a copy, a
lock or a proof is a promise: a server that passed over it would take messages under conditions that
do not hold, and nobody would know before they are needed. So it does not start.
"""

from typing import Final

import msgspec

OFF: Final = ("false", "")


class Promise(msgspec.Struct, frozen=True):
    """What is not kept, and what to do; values in `fine` (lower case) ask for nothing."""

    missing: str
    remedy: str
    fine: tuple[str, ...] = OFF

    def problem(self, key: str, value: str, origin: str) -> str | None:
        """Return why a server with this value must not start, None where it asks for nothing."""
        if value.strip().lower() in self.fine:
            return None
        return f"{key} cannot be {value.strip()!r} ({origin}): {self.missing}; {self.remedy}"
