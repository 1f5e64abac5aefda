"""What a program hands to a producer, looked at before anything is done with it."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from aerobee.client.errors import InvalidMessage, what_is_wrong, wrong_argument
from aerobee.client.hooks import EndTransactionHook, RecallHook, SendHook
from aerobee.client.message import Message, check_message
from aerobee.client.settings import ProducerSettings

S = TypeVar("S")


def given(name: str, settings: S | None, kind: type[S]) -> S:
    """Return the settings that are given, or the defaults; raises InvalidUse for other ones."""
    if settings is None:
        return kind()
    if not isinstance(settings, kind):
        raise wrong_argument(name, f"a {kind.__name__}", settings)
    return settings


def check_hooks(hooks: Sequence[SendHook]) -> tuple[SendHook, ...]:
    """Return hooks of a producer; raises InvalidUse for what is none."""
    if not isinstance(hooks, Iterable):
        raise wrong_argument("hooks", "a sequence of SendHook", hooks)
    found = tuple(hooks)
    for hook in found:
        if not isinstance(hook, SendHook | EndTransactionHook | RecallHook):
            raise wrong_argument("a producer's hook", "a SendHook", hook)
    return found


def check_messages(messages: Sequence[Message], settings: ProducerSettings) -> list[Message]:
    """Return the messages of a batch; raises InvalidMessage for one that no broker takes."""
    if isinstance(messages, Message) or not isinstance(messages, Iterable):
        hint = "write [message] for one"
        raise InvalidMessage(what_is_wrong("messages", "a sequence of messages", messages, hint))
    found = list(messages)
    for message in found:
        check_message(message, settings.body_bytes_max, settings.delay_level_max)
    return found
