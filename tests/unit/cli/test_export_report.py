"""What an export tells people on a terminal."""

import io
import sys

import pytest

from aerobee.cli.export_report import show_summary
from aerobee.spark.exports.summary import ExportSummary, TopicSummary
from aerobee.spark.lake.manifest import Gap
from aerobee.spark.offsets import BrokerQueue, QueueRange


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def shown(monkeypatch: pytest.MonkeyPatch, topic: TopicSummary, target: str = "/lake") -> str:
    """Return what a terminal of 80 columns is shown of one topic's export."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    for name, value in (("TERM", "xterm"), ("NO_COLOR", "1"), ("COLUMNS", "80")):
        monkeypatch.setenv(name, value)
    show_summary(ExportSummary("s", target, [topic], log_bytes=585, seconds=1.0, version=1))
    return screen.getvalue()


def test_a_folder_is_shown_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though parts of the name look like markup, and one closes what was never opened."""
    topic = TopicSummary("orders", 5000, 1, 1, 585, 0, 1000)
    text = shown(monkeypatch, topic, "/lake[red]/a[/b]")
    assert "5,000 messages added under /lake[red]/a[/b]" in text


def test_no_number_is_cut_where_the_terminal_is_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that does not fit goes on in the terminal's next line; long topics are folded."""
    topic = TopicSummary("orders" * 9, 1_234_567_890, 31, 4321, 9_876_543_210_123, 0, 1000)
    lines = shown(monkeypatch, topic).splitlines()
    row = next(line.split() for line in lines if "9,876" in line)
    assert row[0] == "ordersorde"
    assert row[1:5] == ["1,234,567,890", "31", "4,321", "9,876,543,210,123"]
    assert row[5:] == ["1970-01-01T00:00:00Z", "1970-01-01T00:00:01Z"]


def test_what_is_lost_changed_or_waiting_is_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, a line for each."""
    queue = BrokerQueue("b", "orders", 0)
    gaps = (
        Gap(QueueRange(queue, 3, 5), "damaged"),
        Gap(QueueRange(queue, 0, 0), "the store has others"),
    )
    show_summary(ExportSummary("s", "/lake", [], 0, 1.0, 2, gaps=gaps, waiting=("version 1 ...",)))
    assert capsys.readouterr().err.splitlines() == [
        "lost: orders b:0 [3, 5): damaged",
        "changed: orders b:0 from 0 on: the store has others",
        "waiting: version 1 ...",
    ]
