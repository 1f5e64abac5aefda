"""What servers write to their logs."""

import logging

from aerobee.remoting.net.said import OneLine


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
