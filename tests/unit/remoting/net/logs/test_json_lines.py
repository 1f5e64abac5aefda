"""Log lines as JSON."""

import json
import logging
from typing import Any

import pytest

from aerobee.remoting.net.logs.json_lines import TEXT_CHARS_MAX, VALUE_CHARS_MAX, JsonLines


def line(text: str, *arguments: object, **more: Any) -> dict[str, Any]:
    """Return what a line is as JSON."""
    record = logging.LogRecord("aerobee.x", logging.INFO, "", 1, text, arguments, None)
    vars(record).update(more)
    formatted = JsonLines().format(record)
    assert len(formatted.splitlines()) == 1
    read: dict[str, Any] = json.loads(formatted)
    return read


def test_values_have_the_names_that_stand_before_them() -> None:
    """And keep their types; times are those of UTC."""
    read = line("accept paused port=%d pause_s=%g error=%s; see", 7, 0.5, "x", created=0.25)
    assert read == {
        "time": "1970-01-01T00:00:00.250Z",
        "level": "INFO",
        "logger": "aerobee.x",
        "event": "accept paused",
        "fields": {"port": 7, "pause_s": 0.5, "error": "x"},
        "message": "accept paused port=7 pause_s=0.5 error=x; see",
    }


@pytest.mark.parametrize(
    ("text", "arguments", "event", "fields"),
    [
        ("is_open at=%s: on every interface", ("a:1",), "is_open", {"at": "a:1"}),
        ("slow seconds=%g", (float("inf"),), "slow", {"seconds": "inf"}),
        ("%s_starts version=%s", ("broker", "1"), "broker_starts", {"version": "1"}),
        ("retention_is_short: %s", ("why",), "retention_is_short", {}),
        ("full used=%.3f%% of=%r", (99.5, "d"), "full", {"used": 99.5, "of": "d"}),
        ("stopped", (), "stopped", {}),
    ],
)  # fmt: skip
def test_every_form_of_a_line_is_read(
    text: str, arguments: tuple[object, ...], event: str, fields: dict[str, Any]
) -> None:
    """What has no name is in the message alone."""
    read = line(text, *arguments)
    assert read["event"] == event
    assert read.get("fields", {}) == fields


def test_whatever_a_peer_sends_is_one_line_with_an_end() -> None:
    """Control characters, halves of characters, a megabyte."""
    read = line("left group=%s", "g\nERROR x\x1b\u2028\ud800" + "x" * 1_000_000)
    assert read["fields"]["group"].startswith("g\nERROR x\x1b\u2028\\ud800")
    assert len(read["fields"]["group"]) < VALUE_CHARS_MAX + 50
    assert len(read["message"]) < TEXT_CHARS_MAX + 50


def test_a_traceback_is_a_field_of_its_own() -> None:
    """So that nobody has to join lines."""
    try:
        raise RuntimeError("here")
    except RuntimeError as error:
        read = line("fault where=%s", "w", exc_info=(RuntimeError, error, error.__traceback__))
    assert read["trace"].startswith("Traceback (most recent call last):")
    assert read["trace"].endswith("RuntimeError: here")
