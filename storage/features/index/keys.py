"""What a message is found by: hashes of its keys, as RocketMQ makes them (IndexService.java)."""

from collections.abc import Iterator
from typing import Final, Literal

from aerobee.remoting.message.properties import Property, find_property, parse_properties
from aerobee.remoting.message.tags import java_string_hash

IndexType = Literal["K", "U", "T"]

KEY_SEPARATOR: Final = " "  # between the keys of KEYS
_NO_ABSOLUTE: Final = -(1 << 31)


def index_hash(text: str) -> int:
    """Return the hash that an entry has: the absolute value of Java's, 0 where there is none."""
    value = java_string_hash(text)
    return 0 if value == _NO_ABSOLUTE else abs(value)


def key_text(topic: str, key: str, kind: IndexType = "K") -> str:
    """Return the text that is hashed for a key of a topic; T: of its tags."""
    return f"{topic}#T#{key}" if kind == "T" else f"{topic}#{key}"


def record_keys(topic: str, properties: bytes) -> Iterator[tuple[IndexType, str]]:
    """Yield what a record is found by, in the order of its entries."""
    found = parse_properties(properties)
    if uniq := found.get(Property.UNIQ_KEY):
        yield "U", uniq
    for key in found.get(Property.KEYS, "").split(KEY_SEPARATOR):
        if key:
            yield "K", key
    if tags := found.get(Property.TAGS):
        yield "T", tags


def has_key(properties: bytes, key: str, kind: IndexType) -> bool:
    """Whether a record is found by a key; a unique one is found as an ordinary one, too.

    Most that are looked at without having it are told by a look at the bytes alone: who sends
    messages decides how many properties there are.
    """
    if not key or ("\ufffd" not in key and key.encode("utf-8", "replace") not in properties):
        return False
    if kind == "T":
        return find_property(properties, Property.TAGS) == key
    if find_property(properties, Property.UNIQ_KEY) == key:
        return True
    if kind != "K" or KEY_SEPARATOR in key:
        return False
    keys = find_property(properties, Property.KEYS) or ""
    return f"{KEY_SEPARATOR}{key}{KEY_SEPARATOR}" in f"{KEY_SEPARATOR}{keys}{KEY_SEPARATOR}"
