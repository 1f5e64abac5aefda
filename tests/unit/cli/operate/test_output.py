"""Values as they are printed."""

import pytest

from aerobee.cli.operate.output import text_of


@pytest.mark.parametrize(
    ("value", "expected"),
    [(12_345.6, "12345.6"), (1_234_567.8, "1234567.8"), (0.0, "0"), (0.1, "0.1"), (None, "")],
)
def test_numbers_are_written_out(value: float | None, expected: str) -> None:
    """As JSON has them, and in no power of ten."""
    assert text_of(value) == expected
