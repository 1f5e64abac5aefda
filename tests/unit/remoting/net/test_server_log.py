"""What servers write to their logs."""

import io
import logging

import pytest

from aerobee.remoting.net.server_log import LIKE_MAX, LINE_CHARS_MAX, PERIOD_S, OneLine, ServerLog


def test_a_name_that_a_peer_has_sent_forges_no_line() -> None:
    """Nor does it move a terminal's cursor; a traceback keeps its lines."""
    name = "g\n2026-11-23 ERROR aerobee \x1b[2Jdisk_full\r\u2028\x85end\x00"
    record = logging.LogRecord("aerobee", logging.INFO, "", 1, "left group=%s", (name,), None)
    (line,) = OneLine().format(record).splitlines()
    assert line.endswith(
        r"group=g\x0a2026-11-23 ERROR aerobee \x1b[2Jdisk_full\x0d\u2028\x85end\x00"
    )
    try:
        raise RuntimeError("here")
    except RuntimeError as error:
        record.exc_info = (RuntimeError, error, error.__traceback__)
    assert OneLine().format(record).splitlines()[1] == "Traceback (most recent call last):"


def test_who_makes_a_server_complain_fills_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of warnings from one place so many are written in a minute, then how many more there were."""
    now_s, written = 5.0, io.StringIO()
    log = logging.getLogger("aerobee.test")
    monkeypatch.setattr(log, "handlers", [ServerLog(written, lambda: now_s)])
    monkeypatch.setattr(log, "propagate", False)
    log.setLevel(logging.INFO)
    for number in range(1000):
        log.warning("unlock_refused group=%s", number)
        log.info("dead_letter number=%d", number)
    log.warning("something else")
    lines = written.getvalue().splitlines()
    assert sum("unlock_refused" in line for line in lines) == LIKE_MAX
    assert sum("dead_letter" in line for line in lines) == 1000
    assert "something else" in lines[-1]
    now_s += PERIOD_S
    log.error("another minute")
    told, last = written.getvalue().splitlines()[len(lines) :]
    assert "lines_left_out place=test_server_log:" in told and f"count={1000 - LIKE_MAX}" in told
    assert "another minute" in last


def test_a_line_has_an_end() -> None:
    """A peer may send a name of a megabyte."""
    record = logging.LogRecord("aerobee", logging.INFO, "", 1, "left %s", ("x" * 1_000_000,), None)
    assert len(OneLine().format(record)) < LINE_CHARS_MAX + 50
