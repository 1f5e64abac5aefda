"""Tag expressions as the broker reads them."""

import pytest

from aerobee.broker.filters import check_expression_type, is_tag_type, parse_tags, wanted_hashes
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.tags import java_string_hash


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("a", {"a"}),
        ("a||b", {"a", "b"}),
        (" a  ||  b || a ", {"a", "b"}),
        ("a |b", {"a |b"}),
        ("a||", {"a"}),
        ("|| a", {"a"}),
        ("|| ", set()),
        ("ü||日本", {"ü", "日本"}),
    ],
)
def test_expressions_are_lists_of_tags(expression: str, tags: set[str]) -> None:
    """Tags are trimmed, empty ones dropped (FilterAPI.buildSubscriptionData)."""
    assert parse_tags(expression) == frozenset(tags)


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_expressions_that_want_everything(expression: str | None) -> None:
    """No filter at all, and none is looked up."""
    assert parse_tags(expression) is None
    assert wanted_hashes(expression) is None


@pytest.mark.parametrize("expression", ["||", "||||"])
def test_separators_alone_are_refused(expression: str) -> None:
    """Java's split leaves nothing of them, and RocketMQ answers with code 23."""
    with pytest.raises(RequestError) as refused:
        parse_tags(expression)
    assert refused.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert refused.value.remark == "parse the consumer's subscription failed"


def test_wanted_are_java_hashes() -> None:
    """The ConsumeQueue holds String.hashCode of the tags."""
    assert wanted_hashes("TagA || TagB") == frozenset(
        {java_string_hash("TagA"), java_string_hash("TagB")}
    )


def test_other_languages_are_refused_in_rocketmqs_words() -> None:
    """SQL92 is answered as with enablePropertyFilter=false; a missing type means tags."""
    assert is_tag_type(None) and is_tag_type("") and is_tag_type("TAG")
    check_expression_type("TAG")
    with pytest.raises(RequestError) as refused:
        check_expression_type("SQL92")
    assert refused.value.code == ResponseCode.SYSTEM_ERROR
    assert refused.value.remark == "The broker does not support consumer to filter message by SQL92"
