"""Java's string hash."""

import pytest
from support.golden.java import java_rows

from aerobee.remoting.message.tags import java_string_hash


@pytest.mark.parametrize(("text", "value"), java_rows("hash"))
def test_agrees_with_java(text: str, value: str) -> None:
    """Empty, ASCII, beyond the BMP, and the one that is exactly Integer.MIN_VALUE."""
    assert java_string_hash(text) == int(value)


def test_long_and_short_texts_go_the_same_way() -> None:
    """The cache for short texts changes nothing; lone surrogates have a hash too."""
    assert java_string_hash("a" * 64) * 31 + 97 - java_string_hash("a" * 65) & 0xFFFF_FFFF == 0
    assert java_string_hash("\ud800") == 0xD800
