"""Signatures are those of RocketMQ's client, and nothing else passes for one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.golden.java import java_signatures

from aerobee.remoting.net.access.signature import SIGNATURE, is_signed, signature

TEXTS = st.text(max_size=8).filter(str.isprintable)
FIELDS = st.dictionaries(TEXTS, TEXTS, max_size=6)


@pytest.mark.parametrize(("secret", "fields", "body", "signed"), java_signatures())
def test_it_signs_as_java_does(secret: str, fields: str, body: str, signed: str) -> None:
    """Whatever AclClientRPCHook was given, the same comes out; it is taken for signed, too."""
    ext, data = json.loads(fields), bytes.fromhex(body)
    assert signature(secret.encode(), ext, data) == signed
    assert len(signed) == 28
    assert is_signed(secret.encode(), ext | {SIGNATURE: signed}, memoryview(data), 513)


def test_keys_are_in_the_order_of_javas_text() -> None:
    """A sign beyond the first plane comes before one at its end: Java compares UTF-16 units."""
    values = signature(b"k", {"\U0001f600": "b", "\uff5e": "c", "a": "a"}, b"")
    assert values == signature(b"k", {"a": "abc"}, b"")


@given(FIELDS, st.binary(max_size=20), st.data())
def test_any_other_request_is_not_signed(
    fields: dict[str, str], body: bytes, data: st.DataObject
) -> None:
    """Another secret, body or value, or no signature: none of them passes."""
    fields.pop(SIGNATURE, None)
    whole = fields | {SIGNATURE: signature(b"secret", fields, body)}
    assert is_signed(b"secret", whole, body, 513)
    assert not is_signed(b"secre", whole, body, 513)
    assert not is_signed(b"secret", whole, body + b"x", 513)
    assert not is_signed(b"secret", fields, body, 513)
    assert not is_signed(b"secret", whole | {"more": "x"}, body, 513)
    wrong = data.draw(TEXTS)
    assert not is_signed(b"secret", whole | {SIGNATURE: wrong}, body, 513)


def test_old_clients_add_a_field_when_they_have_signed() -> None:
    """_UNIQUE_KEY_QUERY of RocketMQ 4.9.3 and before is not signed; of later ones it is."""
    signed = {"key": "k", SIGNATURE: signature(b"s", {"key": "k"}, b"")}
    assert is_signed(b"s", signed | {"_UNIQUE_KEY_QUERY": "true"}, b"", 399)
    assert not is_signed(b"s", signed | {"_UNIQUE_KEY_QUERY": "true"}, b"", 400)
