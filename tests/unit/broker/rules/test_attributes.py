"""Edits of topic attributes, with RocketMQ's words for what is wrong."""

import pytest

from aerobee.broker.rules.attributes import apply_edits, parse_edits
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError

DEDUP, RETENTION = "aerobee.dedup.seconds", "aerobee.retention.seconds"


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
        (None, f"+{DEDUP}=60,+{RETENTION}=60", f"{DEDUP} must be less than {RETENTION}"),
        ({RETENTION: "60"}, f"+{DEDUP}=61", f"{DEDUP} must be less than {RETENTION}"),
        ({DEDUP: "61"}, f"+{RETENTION}=61", f"{DEDUP} must be less than {RETENTION}"),
        ({"message.type": "FIFO"}, "+message.type=FIFO,-message.type", "alter duplication key"),
    ],
)
def test_edits_that_are_refused(current: dict[str, str] | None, text: str, words: str) -> None:
    """Nothing is changed, code 1 says why."""
    with pytest.raises(RequestError) as refused:
        apply_edits(current, parse_edits(text))
    assert refused.value.code == ResponseCode.SYSTEM_ERROR
    assert words in refused.value.remark


@pytest.mark.parametrize(
    ("current", "text"),
    [
        ({DEDUP: "59", RETENTION: "60"}, f"+{DEDUP}=58"),
        ({DEDUP: "60", RETENTION: "60"}, f"-{DEDUP}"),
        ({DEDUP: "60", RETENTION: "60"}, f"+{DEDUP}=0"),
        ({DEDUP: "60"}, f"+{RETENTION}=61"),
        ({RETENTION: "9" * 5000}, f"+{DEDUP}=60"),
    ],
)
def test_retries_are_known_for_less_than_messages_are_shown(
    current: dict[str, str], text: str
) -> None:
    """Then both go together; what another program has written is nobody's retention."""
    assert apply_edits(current, parse_edits(text)) is not None
