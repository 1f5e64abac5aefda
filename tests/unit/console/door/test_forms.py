"""Forms that no page of the console sends: refused, and no reason to fill the log."""

import asyncio
import logging

import pytest

from aerobee.console.serving import ConsoleServer
from aerobee.console.settings import ConsoleSettings

NOWHERE = "http:/" + "/["  # whose host never ends
FORM = "application/x-www-form-urlencoded"
FILES = "multipart/form-data; boundary=x"
FORMS: list[tuple[str, bytes, int]] = [
    (f"Content-Type: {FORM}; charset=nowhere", b"name=a&password=b", 415),
    (f"Content-Type: {FORM}; charset=utf-7", b"name=admin&password=%2B2AA-", 415),
    (f"Content-Type: {FORM}; charset=raw_unicode_escape", b"name=admin&password=\\ud800", 415),
    (f"Content-Type: {FORM}", b"name=\xff&password=b", 400),
    (f"Content-Type: {FORM}\r\nContent-Encoding: gzip", b"\xff\xfe", 400),
    (f"Content-Type: {FORM}\r\nOrigin: {NOWHERE}", b"name=a&password=b", 403),
    (f"Content-Type: {FORM}", b"a=1&" * 3000, 413),
    (f"Content-Type: {FILES}", b"--x\r\nContent-Disposition: form-data\r\n\r\na\r\n--x--\r\n", 415),
    ("Content-Type: multipart/form-data", b"--x\r\n", 415),
    ("Content-Length: -1", b"", 400),
]


@pytest.mark.parametrize(("head", "body", "status"), FORMS)
async def test_what_no_page_sends_is_refused_and_fills_no_log(
    head: str, body: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever can reach the login could have a trace of it written with every request."""
    settings = ConsoleSettings(
        namesrv_addr="127.0.0.1:1", console_port=0, console_password="a password"
    )
    server = ConsoleServer(settings)
    await server.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        length = "" if "Length" in head else f"Content-Length: {len(body)}\r\n"
        writer.write(f"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n{length}\r\n".encode())
        writer.write(body)
        answer = await reader.readline()
        writer.close()
    finally:
        await server.stop()
    assert answer.split()[1] == b"%d" % status
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []
