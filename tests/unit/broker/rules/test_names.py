"""Names of topics and groups, as TopicValidator judges them."""

import pytest

from aerobee.broker.rules.names import (
    check_group,
    check_topic,
    group_problem,
    retry_topic,
    topic_problem,
)
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.words import DLQ_PREFIX


@pytest.mark.parametrize("name", ["a", "A-b_c|d%9", "t" * 127, "%RETRY%" + "g" * 248])
def test_names_that_topics_may_have(name: str) -> None:
    """Every allowed character, and each kind at its greatest length."""
    assert topic_problem(name) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "The specified topic is blank."),
        (" \t", "The specified topic is blank."),
        ("a b", "contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("a/../b", "contains illegal characters"),
        ("ü", "contains illegal characters"),
        ("a\x00", "contains illegal characters"),
        ("t" * 128, "is longer than topic max length: 127"),
        ("%DLQ%" + "g" * 251, "it's longer than topic max length: 255"),
    ],
)
def test_names_that_topics_may_not_have(name: str, words: str) -> None:
    """The remark is RocketMQ's, the code INVALID_PARAMETER."""
    with pytest.raises(RequestError) as refused:
        check_topic(name)
    assert refused.value.code == ResponseCode.INVALID_PARAMETER
    assert words in refused.value.remark


def test_groups_are_shorter_than_their_retry_topics() -> None:
    """A group of the greatest length still has valid retry and dead-letter topics."""
    group = "g" * 120
    assert group_problem(group) is None
    assert topic_problem(retry_topic(group)) is None
    assert topic_problem(DLQ_PREFIX + group) is None
    with pytest.raises(RequestError, match="longer than group max length: 120"):
        check_group(group + "g")
