"""Times as people type them: a moment in UTC, or how long ago."""

import re
from datetime import UTC, datetime
from typing import Final

from aerobee.client.errors import InvalidUse

_AGO: Final = re.compile(r"(\d{1,9})\s*(s|m|min|h|d)")
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def moment_of(text: str, now_ms: int) -> int | None:
    """Return ms since 1970 of "15m" (ago), of "2026-11-26 18:30" or of a number of ms; None for "".

    Without an offset a moment is in UTC, as pages show times. Raises InvalidUse for anything else.
    """
    text = text.strip().removesuffix("UTC").strip()
    if not text:
        return None
    if ago := _AGO.fullmatch(text):
        return max(0, now_ms - int(ago[1]) * _UNIT_MS[ago[2]])
    if text.isascii() and text.isdecimal() and len(text) < 16:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidUse(
            f"{text!r} is no time: write 15m, 2h or 3d for how long ago, or 2026-11-26 18:30 in UTC"
        ) from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(0, int(moment.timestamp() * 1000))
