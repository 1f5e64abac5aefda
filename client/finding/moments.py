"""Moments and delays as users give them, in milliseconds as they travel."""

from datetime import UTC, datetime, timedelta
from typing import Final

from aerobee.client.errors import InvalidUse

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def moment_ms(name: str, moment: object) -> int:
    """Return the milliseconds since 1970 of a datetime with a time zone, rounded up.

    Raises InvalidUse for anything else, and for what is not after 1970; `name` is the argument's.
    """
    if not isinstance(moment, datetime):
        raise InvalidUse(f"{name}={moment!r}: it must be a datetime")
    if moment.utcoffset() is None:
        raise InvalidUse(
            f"{name}={moment!r} has no time zone: write for example"
            " datetime.now(UTC) + timedelta(hours=1)"
        )
    found_ms = -(-(moment - _EPOCH) // _MILLISECOND)
    if found_ms <= 0:
        raise InvalidUse(f"{name}={moment!r} is not after 1970")
    return found_ms


def delay_ms(name: str, delay: object) -> int:
    """Return the milliseconds of a timedelta, rounded up; raises InvalidUse for less than none."""
    if not isinstance(delay, timedelta):
        raise InvalidUse(f"{name}={delay!r}: it must be a timedelta")
    if delay < timedelta(0):
        raise InvalidUse(f"{name}={delay!r} is negative")
    return -(-delay // _MILLISECOND)
