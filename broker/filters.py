"""Which messages a subscription wants: tag expressions, as the broker sees them.

The broker compares hashes only, so two tags with one hash both pass; the client compares the text
(FilterAPI, ExpressionMessageFilter). Expressions of other types (SQL92) are refused before they
come here, as RocketMQ does with enablePropertyFilter=false.
"""

from collections.abc import Iterable
from typing import Final

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.tags import java_string_hash

MessageFilter = frozenset[int]
"""The tag hashes that a pull wants; no filter at all (None) wants every message."""

ALL: Final = "*"
TAG: Final = "TAG"
SQL92: Final = "SQL92"
_SEPARATOR: Final = "||"


def is_tag_type(expression_type: str | None) -> bool:
    """Whether an expression is a list of tags; no type at all means that it is."""
    return not expression_type or expression_type == TAG  # ExpressionType.isTagType


def check_expression_type(expression_type: str | None) -> None:
    """Refuse expressions that the broker cannot evaluate, as with enablePropertyFilter=false."""
    if not is_tag_type(expression_type):
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"The broker does not support consumer to filter message by {expression_type}",
        )


def parse_tags(expression: str | None) -> frozenset[str] | None:
    """Return the tags of `a || b`, or None for an expression that wants every message.

    Raises RequestError (SUBSCRIPTION_PARSE_FAILED) for an expression of separators only.
    """
    if not expression or expression == ALL:
        return None
    parts = expression.split(_SEPARATOR)
    if not any(parts):  # Java's split of "||" has no parts at all
        raise RequestError(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed"
        )
    return frozenset(filter(None, (part.strip() for part in parts)))


def tag_hashes(tags: Iterable[str]) -> MessageFilter:
    """Return the hashes by which the ConsumeQueue knows these tags."""
    return frozenset(map(java_string_hash, tags))


def wanted_hashes(expression: str | None) -> MessageFilter | None:
    """Return the hashes that a tag expression wants, or None when it wants every message."""
    tags = parse_tags(expression)
    return None if tags is None else tag_hashes(tags)
