"""The progress bar: drawn for people, silent for programs."""

import io
import sys

import pytest

from aerobee.cli.progress import progress_bar


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_a_program_sees_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Where stderr is no terminal not a byte is written."""
    with progress_bar("exporting") as progress:
        progress(1, 2)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_sees_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The label and the count stand on stderr while it runs."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("exporting") as progress:
        progress(3, 7)
    assert "exporting" in screen.getvalue()
    assert "3/7" in screen.getvalue()


def test_what_is_done_in_a_moment_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """It appears only after the time that was asked for."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with progress_bar("exporting", after_s=2.0) as progress:
        progress(1, 7)
        assert screen.getvalue() == ""
        now = 102.0
        progress(3, 7)
    assert "3/7" in screen.getvalue()
