"""Points in time as an export is asked for them: the first whole millisecond that they include."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def milliseconds(moment: datetime | int | None) -> int | None:
    """A point in time as ms since 1970, rounded up; a datetime without a zone is UTC.

    Store times are whole ms: one is at or after a moment, or before it, just as it is of the
    next whole ms.
    """
    if not isinstance(moment, datetime):
        return moment
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return -((_EPOCH - moment) // _MICROSECOND // 1000)
