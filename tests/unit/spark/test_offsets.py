"""Offsets as JSON: the same text for the same offsets, and every wrong text is explained."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerobee.spark.errors import OptionError
from aerobee.spark.offsets import (
    BrokerQueue,
    format_offsets,
    marks_of_tree,
    offsets_of_tree,
    parse_assign,
    parse_offsets,
)

KEYS = st.builds(BrokerQueue, st.text(min_size=1), st.text(min_size=1), st.integers(0, 2**31 - 1))


@given(st.dictionaries(KEYS, st.integers(-2, 2**63 - 1)))
def test_offsets_survive_their_text(offsets: dict[BrokerQueue, int]) -> None:
    """Any names of brokers and topics, a colon or a line break in them too."""
    text = format_offsets(offsets)
    assert parse_offsets(text) == offsets
    assert format_offsets(dict(reversed(offsets.items()))) == text


def test_one_broker_need_not_be_named() -> None:
    """Where one store is read, the number says all."""
    key = BrokerQueue("broker-a", "orders", 3)
    assert parse_offsets('{"orders": {"3": 7}}', ["broker-a"]) == {key: 7}
    assert parse_assign('{"orders": [3, "broker-a:4"]}', ["broker-a"]) == {
        key,
        BrokerQueue("broker-a", "orders", 4),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("earliest", "is no JSON"),
        ("[1]", "is no JSON object"),
        ('{"a": 3}', "'a' has 3 in place of its queues"),
        ('{"a": {"x:y": 3}}', "'x:y' of 'a' is no queue"),
        ('{"a": {"b:2147483648": 3}}', "'b:2147483648' of 'a' is no queue"),
        ('{"a": {"b:0": -3}}', "-3 of a b:0 is no offset"),
        ('{"a": {"b:0": true}}', "True of a b:0 is no offset"),
        ('{"a": {"b:0": 1.5}}', "1.5 of a b:0 is no offset"),
        ('{"a": {"0": 1}}', "names no broker, and several are read .b, c."),
        ('{"a": {"d:0": 1}}', "there is no broker 'd' .there are: b, c."),
        ('{"a": {"b:0": 1, "b:00": 1}}', "queue a b:0 stands there twice"),
        ('{"a": {"b:0": 1, "b:0": 1}}', "a name stands there twice"),
        ("[" * 100_000, "nested too deeply|no JSON"),
    ],
)
def test_wrong_texts_are_explained(text: str, message: str) -> None:
    """What is wrong, and an example of what is right."""
    with pytest.raises(OptionError, match=f"(?s)^option endingOffsets: .*{message}.*write it as"):
        parse_offsets(text, ["b", "c"], "option endingOffsets")


@pytest.mark.parametrize("text", ["{}", '{"a": []}', '{"a": {"b:0": 1}}', '{"a": ["b"]}', "a"])
def test_wrong_assignments_are_explained(text: str) -> None:
    """Likewise for the list of queues."""
    with pytest.raises(OptionError, match=r'^option assign: .*write it as {"orders": \["bro'):
        parse_assign(text, ["b"])


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"t": [3]}, r"\[3\] in place of the queues of 't'"),
        ({"t": {"0": 3}}, r"'0' of 't', which is no queue \(broker:number\)"),
        ({"t": {"b:x": 3}}, "'b:x' of 't', which is no queue"),
        ({"t": {"b:0": None}}, "None as the offset of queue t b:0"),
        ({"t": {"b:0": "3"}}, "'3' as the offset"),
        ({"t": {"b:0": 1.7}}, "1.7 as the offset"),
        ({"t": {"b:0": -2}}, "-2 as the offset"),
        ({"t": {"b:0": 1 << 70}}, r"\d+ as the offset"),
        ({"@last": [1]}, r"\[1\] in place of its topics"),
        ({"@last": {"t": "x"}}, "'x' in place of the queues of 't'"),
    ],
)
def test_checkpoint_that_was_edited_wrongly_is_refused_in_words(
    tree: dict[str, Any], message: str
) -> None:
    """Nothing in it is guessed at, and the text says what to do."""
    with pytest.raises(ValueError, match=rf"a checkpoint has {message}.*startingOffsets"):
        offsets_of_tree(tree), marks_of_tree(tree)


def test_checkpoint_of_a_later_version_is_refused_in_words() -> None:
    """It may hold what decides where reading goes on: to pass it over would lose messages."""
    tree = {"t": {"b:0": 3}, "@last": {"t": {"b:0": "1@2"}}}
    assert offsets_of_tree(tree) == {BrokerQueue("b", "t", 0): 3}
    with pytest.raises(ValueError, match=r"'@epochs' .* written by a later version of aerobee"):
        offsets_of_tree(tree | {"@epochs": {"b": 4}})
