"""Which names topics and groups may have, and the topics that belong to a group."""

from typing import Final

from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.words import DLQ_PREFIX, RETRY_PREFIX

TOPIC_CHARS_MAX: Final = 127
GROUP_TOPIC_CHARS_MAX: Final = 255  # %RETRY% and %DLQ% topics carry a group's name inside
GROUP_CHARS_MAX: Final = 120


_ALLOWED: Final = frozenset("%|_-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_PATTERN: Final = "^[%|a-zA-Z0-9_-]+$"  # as the remarks of TopicValidator.java print it


def retry_topic(group: str) -> str:
    """Name the topic where messages wait that `group` failed to consume."""
    return RETRY_PREFIX + group


def topic_problem(topic: str) -> str | None:
    """Say what is wrong with a topic's name, in TopicValidator's words; None when it is fine."""
    if not topic.strip():
        return "The specified topic is blank."
    if not _ALLOWED.issuperset(topic):
        return (
            f"The specified topic: {topic}, contains illegal characters, allowing only {_PATTERN}"
        )
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        if len(topic) > GROUP_TOPIC_CHARS_MAX:
            return (
                f"The specified topic is DLQ or Retry topic: {topic}, and it's longer than "
                f"topic max length: {GROUP_TOPIC_CHARS_MAX}"
            )
    elif len(topic) > TOPIC_CHARS_MAX:
        return f"The specified topic: {topic}, is longer than topic max length: {TOPIC_CHARS_MAX}"
    return None


def group_problem(group: str) -> str | None:
    """Say what is wrong with a group's name, in TopicValidator's words; None when it is fine."""
    if not group.strip():
        return "The specified group is blank."
    if not _ALLOWED.issuperset(group):
        return (
            f"The specified group: {group}, contains illegal characters, allowing only {_PATTERN}"
        )
    if len(group) > GROUP_CHARS_MAX:
        return f"The specified group: {group}, is longer than group max length: {GROUP_CHARS_MAX}"
    return None


def check_topic(topic: str) -> None:
    """Refuse (INVALID_PARAMETER) a name that no topic may have."""
    if problem := topic_problem(topic):
        raise RequestError(ResponseCode.INVALID_PARAMETER, problem)


def check_group(group: str) -> None:
    """Refuse (INVALID_PARAMETER) a name that no group may have."""
    if problem := group_problem(group):
        raise RequestError(ResponseCode.INVALID_PARAMETER, problem)
