"""`manage.py consume` says what it cannot do; the README's project shows what it does."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from aerobee.integrations.django import consumes, handlers


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """Forget what a test registers."""
    handlers._groups.clear()
    yield
    handlers._groups.clear()


def handle(given: Any) -> None:
    """Do nothing."""


def test_the_command_wants_groups_with_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would wait for nothing."""
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")
    with pytest.raises(CommandError, match="no handlers: no app has"):
        call_command("consume")
    consumes("orders", group="billing")(handle)
    with pytest.raises(CommandError, match="no handlers for shipping; groups that have: billing"):
        call_command("consume", "billing", "shipping")
