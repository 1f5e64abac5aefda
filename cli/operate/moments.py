"""Times as people write them: a date, a date and time, how long ago."""

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

_AGO: Final = re.compile(r"(\d{1,9})(ms|s|m|h|d)")
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS_DIGITS: Final = range(9, 19)


class PointInTime(click.ParamType[int]):
    """A date, a date and time (UTC unless it says otherwise), ms since 1970, or 15m for ago."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return ms since 1970."""
        if isinstance(value, int):
            return value
        text = str(value).strip()
        moment_ms = self._read(text, param, ctx)
        if moment_ms < 0:  # brokers take -1 for the end of a queue
            self.fail(f"{text!r} is before 1970", param, ctx)
        return moment_ms

    def _read(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if text.isdecimal() and len(text) in _MS_DIGITS:
            return int(text)
        if (ago := _AGO.fullmatch(text)) is not None:
            return max(int(time.time() * 1000) - int(ago[1]) * _UNIT_MS[ago[2]], 0)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(
                f"{text!r}: write 2026-11-21, 2026-11-21T18:30 (UTC), 15m or 2h (ago), or ms since"
                " 1970",
                param,
                ctx,
            )
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(milliseconds=1)
