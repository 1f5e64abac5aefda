"""Times as people type them."""

import pytest

from aerobee.client.errors import InvalidUse
from aerobee.console.messages.moments import moment_of

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("15m", NOW_MS - 900_000),
        ("2 h", NOW_MS - 7_200_000),
        ("2023-11-14 22:13:20", NOW_MS),
        ("2023-11-14 22:13:20.000 UTC", NOW_MS),
        ("2023-11-14T23:13:20+01:00", NOW_MS),
        ("1700000000000", NOW_MS),
        ("1960-01-01", 0),
    ],
)
def test_a_moment_is_read(text: str, expected: int | None) -> None:
    """As it is shown, as it is copied from elsewhere, and as one thinks of it."""
    assert moment_of(text, NOW_MS) == expected


@pytest.mark.parametrize("text", ["soon", "15x", "2023-13-40", "９９d٣"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    """With words that say what would be one."""
    with pytest.raises(InvalidUse, match="write 15m"):
        moment_of(text, NOW_MS)
