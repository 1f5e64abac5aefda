"""What a broker says of itself when it starts."""

import logging

import pytest

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
