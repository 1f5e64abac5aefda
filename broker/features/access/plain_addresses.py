"""Addresses as the white lists of RocketMQ 4.x have them, as networks."""

import ipaddress
from typing import Final

from aerobee.remoting.net.access.white import EVERYBODY

EVERYWHERE: Final = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})
_BITS: Final = {4: 8, 6: 16}  # of one part of an address


def networks_of(text: str) -> list[str]:
    """Return the networks that an address of 4.x stands for; raises ValueError where it is none.

    It is an address, several joined by commas, `10.0.0.{1,2}`, `10.0.*.*`, `10.0.0.1-9`, or `*`.
    """
    text = text.strip()
    if not text:
        return []
    if text in EVERYWHERE:
        return sorted(EVERYBODY)
    try:
        if text.endswith("}"):
            head, _, tail = text[:-1].rpartition("{")
            if not head.endswith((".", ":")):
                raise ValueError("a list of last parts stands behind a dot or a colon")
            return [_one(head + part) for part in tail.split(",")]
        if "," in text:
            return [_one(part) for part in text.split(",")]
        if "*" in text or "-" in text:
            return _range(text)
        return [_one(text)]
    except ValueError as error:
        raise ValueError(f"{text!r} is no address as RocketMQ 4.x has them: {error}") from None


def _one(text: str) -> str:
    return str(ipaddress.ip_network(text.strip()))


def _range(text: str) -> list[str]:
    """Return what `10.0.1-5.*` covers: of the first part that is no number on, all are."""
    version, sign = (6, ":") if ":" in text else (4, ".")
    parts, most = text.split(sign), (1 << _BITS[version]) - 1
    if len(parts) != (8 if version == 6 else 4):
        raise ValueError("it has too few, or too many parts")
    spans = [_span(part.strip(), version, most) for part in parts]
    open_at = next(at for at, (low, high) in enumerate(spans) if low != high)
    if any(span != (0, most) for span in spans[open_at + 1 :]):
        raise ValueError("behind a range all parts are *")
    first, last = (
        ipaddress.ip_address(
            sign.join(f"{span[end]:{'x' if version == 6 else 'd'}}" for span in spans)
        )
        for end in (0, 1)
    )
    return [str(each) for each in ipaddress.summarize_address_range(first, last)]


def _span(part: str, version: int, most: int) -> tuple[int, int]:
    if part == "*":
        return 0, most
    low, minus, high = part.partition("-")
    base = 16 if version == 6 else 10
    if not all(each.isalnum() and each.isascii() for each in (low, high or low)) or (
        minus and not high
    ):
        raise ValueError(f"{part!r} is no number and no range")
    span = int(low, base), int(high or low, base)
    if not 0 <= span[0] <= span[1] <= most:
        raise ValueError(f"{part!r} is no range from 0 to {most:{'x' if version == 6 else 'd'}}")
    return span
