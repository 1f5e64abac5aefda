"""What a program hands to a producer, looked at before anything is done with it."""

from collections.abc import Iterable, Sequence

from aerobee.client.errors import InvalidMessage, what_is_wrong, whole_number, wrong_argument
from aerobee.client.hooks import EndTransactionHook, RecallHook, SendHook
from aerobee.client.message import Message, check_message
from aerobee.client.settings import ProducerSettings


def check_timeout(timeout_ms: int | None) -> None:
    """Raise InvalidUse for a time that is none; None stands for the settings' one."""
    if timeout_ms is not None:
        whole_number("timeout_ms", timeout_ms)


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
