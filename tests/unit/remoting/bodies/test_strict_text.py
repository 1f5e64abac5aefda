"""Strict bodies: msgspec writes them alone, and its text is that of the writer for all bodies."""

from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aerobee.remoting import bodies, fastjson
from aerobee.remoting.bodies import Body, encode_body, plain

KINDS = [
    each
    for name in bodies.__all__
    if isinstance(each := getattr(bodies, name), type) and issubclass(each, Body)
]
TEXTS = st.sampled_from(["", "null", ',"brokerAddr":null', '"\\', "t-\u00e9\u2028\0", "\U0001f41d"])
TEXTS |= st.text(max_size=4)
FLOATS = st.floats()
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | TEXTS,
    lambda more: st.lists(more, max_size=2) | st.dictionaries(TEXTS, more, max_size=2),
    max_leaves=5,
)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    Any: ANYTHING, NoneType: st.none(), str: TEXTS, bool: st.booleans(), float: FLOATS,
    int: st.integers(-(2**63), 2**63 - 1),
}  # fmt: skip


def values(hint: Any) -> st.SearchStrategy[Any]:
    """What a field of such a type may hold."""
    if hint in PLAIN:
        return PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, Body):
        return made(hint)
    origin, of = get_origin(hint), get_args(hint)
    if origin is Annotated:
        (bounds,) = (each for each in of[1:] if isinstance(each, msgspec.Meta))
        assert isinstance(bounds.ge, int) and isinstance(bounds.le, int)
        return st.integers(bounds.ge, bounds.le)
    if origin in (Union, UnionType):
        return st.one_of(*map(values, of))
    if origin is list:
        return st.lists(values(of[0]), max_size=2)
    assert origin is dict, hint
    return st.dictionaries(values(of[0]), values(of[1]), max_size=2)


@cache
def made(kind: type[Body]) -> st.SearchStrategy[Any]:
    """Bodies of a kind."""
    hints = get_type_hints(kind, include_extras=True)
    return st.builds(kind, **{name: values(hints[name]) for name in kind.__struct_fields__})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=30)
@given(data=st.data())
def test_it_is_the_text_that_is_written_value_by_value(
    kind: type[Body], data: st.DataObject
) -> None:
    """Byte by byte, whatever is None, quoted, nested, renamed, or a number as a key."""
    body = data.draw(made(kind))
    assert encode_body(body) == fastjson.dumps(plain(body), strict=True)
