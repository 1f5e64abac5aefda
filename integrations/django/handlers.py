"""Functions that `manage.py consume` calls with messages."""

from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, NamedTuple, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections, reset_queries

from aerobee.client import ConsumeFrom, InvalidUse
from aerobee.client.message import GROUP_CHARACTERS_MAX, TOPIC_CHARACTERS_MAX, check_name
from aerobee.client.sync import PushConsumer
from aerobee.client.sync.handler_threads import plain
from aerobee.integrations.django.configured import configured

F = TypeVar("F", bound=Callable[[Any], Any])


class Consumed(NamedTuple):
    """A topic that a group consumes, by a function."""

    topic: str
    handler: Callable[[Any], Any]
    tags: str
    sql: str | None
    batch: int | None
    ordered: bool


_groups: Final[dict[str, dict[str, Consumed]]] = defaultdict(dict)


def consumes(
    topic: str,
    *,
    group: str,
    tags: str = "*",
    sql: str | None = None,
    batch: int | None = None,
    ordered: bool = False,
) -> Callable[[F], F]:
    """Let `manage.py consume` call a function with the messages of a topic.

        @consumes("orders", group="billing")
        def bill(message: ReceivedMessage) -> None:
            Invoice.objects.create(number=message.body.decode())

    It stands in the `handlers.py` of an app, is plain, gets one message, or a list with `batch`,
    and answers as a handler of `aerobee.client.sync.PushConsumer` does. Connections to databases
    are treated as for a request: what is too old or broken is closed before and after each call.
    Raises InvalidUse where the group has another function for the topic, or is `ordered` in one
    place alone, and for an async function; InvalidMessage for names that brokers refuse.
    """
    check_name("topic", topic, TOPIC_CHARACTERS_MAX)
    check_name("group", group, GROUP_CHARACTERS_MAX)

    def register(handler: F) -> F:
        plain(handler, "handler")
        known = _groups[group].get(topic)
        place = (handler.__module__, handler.__qualname__)
        if known is not None and (known.handler.__module__, known.handler.__qualname__) != place:
            raise InvalidUse(f"group {group!r} has a handler of {topic!r}: {known.handler}")
        if any(each.ordered != ordered for each in _groups[group].values()):
            raise InvalidUse(f"group {group!r} must be ordered for all its topics, or for none")
        _groups[group][topic] = Consumed(topic, handler, tags, sql, batch, ordered)
        return handler

    return register


def groups() -> list[str]:
    """Return the groups that have handlers."""
    return sorted(_groups)


def consumer_of(group: str) -> PushConsumer:
    """Return a consumer with the handlers of a group, not started.

    Raises ImproperlyConfigured for a group without handlers, and for wrong settings.
    """
    handled = _groups.get(group)
    if not handled:
        there = ", ".join(groups()) or "none"
        raise ImproperlyConfigured(f"group {group!r} has no handlers; groups that have: {there}")
    said = configured()
    consumer = PushConsumer(
        group,
        namesrv=said.namesrv,
        settings=said.consumer,
        client=said.client,
        consume_from=ConsumeFrom.FIRST,
        ordered=next(iter(handled.values())).ordered,
    )
    for each in handled.values():
        call: Any = _with_connections(each.handler)
        options: dict[str, Any] = {} if each.batch is None else {"batch": each.batch}
        consumer.subscribe(each.topic, call, tags=each.tags, sql=each.sql, **options)
    return consumer


def _with_connections(handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @wraps(handler)
    def call(given: Any) -> Any:
        reset_queries()  # which DEBUG keeps for ever
        close_old_connections()
        try:
            return handler(given)
        finally:
            close_old_connections()

    return call
