"""Changes as they are logged: one line each, whatever is in the names."""

import logging

import pytest

from aerobee.console.changes import Changes


def test_a_change_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever may delete a group could write lines of others into it."""
    caplog.set_level(logging.INFO)
    changes = Changes()
    changes.note("ann", "127.0.0.1", "group x\nconsole_login user='root'\r\x1b deleted")
    (record,) = caplog.records
    assert "\\nconsole_login" in record.getMessage()
    for text in (record.getMessage(), changes.kept[0].what):
        assert text.isprintable()
