"""What a broker says of itself when it starts."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from support.servers.live_broker import live_broker

from aerobee.broker.start import reports
from aerobee.remoting.config.built import Build
from aerobee.testing import EmbeddedCluster


async def test_a_broker_without_compiled_code_says_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One warning at the start, with the reason; none where the code is there."""
    caplog.set_level(logging.WARNING)
    for compiled in (False, True):
        monkeypatch.setattr(reports, "is_compiled", lambda there=compiled: there)
        monkeypatch.setattr(reports, "build", lambda: Build("1", compiled=False, why="no compiler"))
        caplog.clear()
        async with EmbeddedCluster():
            pass
        said = [text for text in caplog.messages if text.startswith("broker_not_compiled")]
        assert len(said) == (0 if compiled else 1)
        assert compiled or "reason='no compiler'" in said[0]


@pytest.mark.parametrize(
    ("settings", "listens"),
    [
        ({"bind_address": "127.0.0.1"}, ""),
        ({"bind_address": "localhost"}, ""),
        ({"bind_address": "0.0.0.0"}, "0.0.0.0:{port}"),
        ({"bind_address": "0.0.0.0", "http_host": "0.0.0.0"}, "0.0.0.0:{port},0.0.0.0:{http}"),
        ({"bind_address": "::"}, "[::]:{port}"),
        ({"bind_address": "0.0.0.0", "authentication_enabled": True}, ""),
        ({"bind_address": "0.0.0.0", "authorization_enabled": True}, "0.0.0.0:{port}"),
    ],
)
async def test_a_broker_that_anybody_can_use_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, settings: dict[str, Any], listens: str
) -> None:
    """One line, of what is reached from other machines and asks nobody who he is."""
    user = json.dumps({"username": "root", "password": "x"})
    if "authentication_enabled" in settings or "authorization_enabled" in settings:
        settings = settings | {"init_authentication_user": user}
    async with live_broker(tmp_path, **({"http_port": 0} | settings)) as live:
        ports = {"port": live.broker.port, "http": live.broker.http_port}
    told = [text for text in caplog.messages if text.startswith("broker_is_open")]
    expected = [f"broker_is_open listens={listens.format(**ports)}:"] if listens else []
    assert [text[: text.index(": beyond") + 1] for text in told] == expected
