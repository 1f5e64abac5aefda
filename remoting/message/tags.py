"""Java's string hash: the number by which a broker filters tags and finds message keys."""

from functools import lru_cache
from typing import Final

_CACHED_CHARS_MAX: Final = 64  # a cache of long strings would be memory that a peer decides about


def java_string_hash(text: str) -> int:
    """Return `text.hashCode()` as Java computes it: over UTF-16 code units, wrapped to an int32.

    A tag's hash stands in every ConsumeQueue entry, sign-extended to 64 bits; "" hashes to 0.
    Source: String.hashCode; MessageExtBrokerInner.tagsString2tagsCode.
    """
    if len(text) <= _CACHED_CHARS_MAX:
        return _short_hash(text)
    return _hash(text)


def _hash(text: str) -> int:
    value = 0
    if text.isascii():
        for byte in text.encode("ascii"):
            value = (31 * value + byte) & 0xFFFF_FFFF
    else:
        units = memoryview(text.encode("utf-16-le", "surrogatepass"))
        for at in range(0, len(units), 2):
            value = (31 * value + units[at] + (units[at + 1] << 8)) & 0xFFFF_FFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


_short_hash = lru_cache(maxsize=8192)(_hash)
