"""Edits of topic attributes, with RocketMQ's words for what is wrong."""

import pytest

from aerobee.broker.rules.attributes import apply_edits, parse_edits
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError


def test_edits_add_change_and_remove() -> None:
    """`+key=value` and `-key`, several joined by commas."""
    made = apply_edits(None, parse_edits("+message.type=FIFO,+cleanup.policy=DELETE"))
    assert made == {"message.type": "FIFO", "cleanup.policy": "DELETE"}
    changed = apply_edits(made, parse_edits("+message.type=DELAY"))
    assert changed["message.type"] == "DELAY"
    assert apply_edits(changed, parse_edits("-message.type")) == {"cleanup.policy": "DELETE"}
    assert apply_edits({"message.type": "FIFO"}, {}) == {"message.type": "FIFO"}
    assert parse_edits(None) == parse_edits("") == {}


@pytest.mark.parametrize(
    ("current", "text", "words"),
    [
        (None, "message.type=FIFO", "add/alter attribute format is wrong"),
        (None, "message.type", "delete attribute format is wrong"),
        (None, "+message.type=A,+message.type=B", "key duplication"),
        (None, "-message.type", "only add attribute is supported while creating topic"),
        (None, "+colour=red", "unsupported key: colour"),
        (None, "+message.type=RED", "value is not in set: [UNSPECIFIED, MIXED, TRANSACTION"),
        (None, "+queue.type=Other", "value is not in set: [BatchCQ, SimpleCQ]"),
        (None, "+queue.type=BatchCQ,+cleanup.policy=COMPACTION", "exclude each other"),
        (None, "+reserve.time=5", "Update topic reserveTime not supported"),
        ({}, "-message.type", "attempt to delete a nonexistent key"),
        ({}, "+queue.type=SimpleCQ", "attempt to update an unchangeable attribute"),
        ({"message.type": "FIFO"}, "+message.type=FIFO,-message.type", "alter duplication key"),
    ],
)
def test_edits_that_are_refused(current: dict[str, str] | None, text: str, words: str) -> None:
    """Nothing is changed, code 1 says why."""
    with pytest.raises(RequestError) as refused:
        apply_edits(current, parse_edits(text))
    assert refused.value.code == ResponseCode.SYSTEM_ERROR
    assert words in refused.value.remark
