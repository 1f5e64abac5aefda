"""Functions that are registered are called with messages, with connections as in a request."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from aerobee.client import InvalidMessage, InvalidUse, Message, ReceivedMessage
from aerobee.integrations.django import consumes, handlers, send
from aerobee.integrations.django.handlers import consumer_of, groups
from aerobee.testing import ClusterThread


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """Forget what a test registers."""
    handlers._groups.clear()
    yield
    handlers._groups.clear()


def handle(given: Any) -> None:
    """Do nothing."""


def other(given: Any) -> None:
    """Do nothing, elsewhere."""


def test_a_group_has_one_function_for_a_topic() -> None:
    """Registering it again, as a reload does, is none of another."""
    assert consumes("orders", group="billing")(handle) is handle
    consumes("orders", group="billing")(handle)
    consumes("orders", group="shipping")(other)
    with pytest.raises(InvalidUse, match="has a handler of 'orders'"):
        consumes("orders", group="billing")(other)
    with pytest.raises(InvalidUse, match="ordered for all"):
        consumes("paid", group="billing", ordered=True)(other)
    with pytest.raises(InvalidMessage):
        consumes("a b", group="billing")
    assert groups() == ["billing", "shipping"]
    with pytest.raises(ImproperlyConfigured, match="'none' has no handlers"):
        consumer_of("none")


def test_an_async_function_is_refused_where_it_stands() -> None:
    """`manage.py consume` would call it, and nobody await it."""

    async def asynchronous(given: Any) -> None: ...

    with pytest.raises(InvalidUse, match="is async"):
        consumes("orders", group="billing")(asynchronous)
    assert groups() == []


def test_a_connection_is_closed_behind_each_call() -> None:
    """As behind a request: with the default CONN_MAX_AGE of 0, also where the handler raises."""
    found: list[object] = []

    def look(given: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        found.append(connection.connection)
        if given == "bad":
            raise ZeroDivisionError

    consumes("connected", group="connecting")(look)
    call = handlers._with_connections(look)
    call("good")
    assert connection.connection is None
    with pytest.raises(ZeroDivisionError):
        call("bad")
    assert connection.connection is None
    assert len(set(map(id, found))) == 2


def test_handlers_get_messages(fresh: ClusterThread) -> None:
    """With a list where they take batches; what was sent before the group is there, too."""
    fresh.create_topic("listed", 1)
    done = threading.Event()
    send(Message("listed", b"first"))

    @consumes("listed", group="listing", batch=1, ordered=True)
    def look(messages: list[ReceivedMessage]) -> None:
        assert [each.body for each in messages] == [b"first"]
        done.set()

    with consumer_of("listing") as consumer:
        assert done.wait(20)
        assert consumer.ordered
