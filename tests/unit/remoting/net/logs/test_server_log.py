"""What servers write to their logs."""

import io
import json
import logging
from pathlib import Path

import pytest

from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.config.settings import SettingsError
from aerobee.remoting.net.logs.server_log import (
    LIKE_MAX,
    LINE_CHARS_MAX,
    PERIOD_S,
    TOLD_LIKE_MAX,
    Logs,
    OneLine,
    ServerLog,
)


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
    for number in range(TOLD_LIKE_MAX + 1):
        log.info("topic_made number=%d", number)
    log.warning("something else")
    lines = written.getvalue().splitlines()
    assert sum("unlock_refused" in line for line in lines) == LIKE_MAX
    assert sum("dead_letter" in line for line in lines) == 1000
    assert sum("topic_made" in line for line in lines) == TOLD_LIKE_MAX
    assert "something else" in lines[-1]
    now_s += PERIOD_S
    log.error("another minute")
    told, more, last = written.getvalue().splitlines()[len(lines) :]
    assert "lines_left_out place=test_server_log:" in told and f"count={1000 - LIKE_MAX}" in told
    assert "lines_left_out place=test_server_log:" in more and more.endswith("count=1")
    assert "another minute" in last


def test_a_line_has_an_end() -> None:
    """A peer may send a name of a megabyte."""
    record = logging.LogRecord("aerobee", logging.INFO, "", 1, "left %s", ("x" * 1_000_000,), None)
    assert len(OneLine().format(record)) < LINE_CHARS_MAX + 50


def test_parts_have_levels_that_change_while_a_server_runs() -> None:
    """What is asked for no more is as before; nothing of it is left behind."""
    written = io.StringIO()
    settings = NamesrvSettings(log_level="WARNING", log_levels="broker.sends=DEBUG;storage=ERROR")
    logs = Logs(settings, written)
    try:
        for name in ("broker.sends.checks", "storage.log", "namesrv"):
            for level in ("debug", "info", "warning", "error"):
                getattr(logging.getLogger(f"aerobee.{name}"), level)(f"{name}_{level}")
        said = [line.split()[-1] for line in written.getvalue().splitlines()]
        assert said == [
            *(f"broker.sends.checks_{level}" for level in ("debug", "info", "warning", "error")),
            "storage.log_error",
            "namesrv_warning",
            "namesrv_error",
        ]
        logs.apply(settings.changed({"logLevel": "ERROR", "logLevels": "namesrv=INFO"}))
        assert not logging.getLogger("aerobee.broker.sends").isEnabledFor(logging.WARNING)
        assert logging.getLogger("aerobee.storage").level == logging.NOTSET
        assert logging.getLogger("aerobee.namesrv").isEnabledFor(logging.INFO)
    finally:
        logs.close()
    assert logging.getLogger("aerobee.namesrv").level == logging.NOTSET


def test_a_server_writes_json_into_files(tmp_path: Path) -> None:
    """As its settings say; what it has said is there when it has ended."""
    path = tmp_path / "logs" / "namesrv.log"
    logs = Logs(NamesrvSettings(log_format="json", log_file=path))
    logging.getLogger("aerobee.namesrv").warning("broker_twin name=%s", "b")
    logs.close()
    (line,) = path.read_text().splitlines()
    assert json.loads(line)["fields"] == {"name": "b"}


@pytest.mark.parametrize("value", ["broker", "broker=LOUD", "Broker Sends=INFO", "=INFO", "a=info"])
def test_a_level_that_is_none_is_refused(value: str) -> None:
    """With what is allowed; an empty value asks for nothing."""
    with pytest.raises(SettingsError, match=r"allowed: part=LEVEL joined by ;"):
        NamesrvSettings().changed({"logLevels": value})
    assert NamesrvSettings().changed({"logLevels": " "}).levels_of_parts == {}
