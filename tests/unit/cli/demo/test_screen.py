"""The demonstration's balance and its views."""

import io

from aerobee.cli.demo.screen import Lines, line, owned
from aerobee.cli.demo.tally import ConsumerRow, Snapshot, Tally, Totals


def snapshot(elapsed_s: float, event: str = "two consumers share the queues") -> Snapshot:
    """Make the state of a run with two consumers, one of them gone."""
    rows = (
        ConsumerRow("consumer-1", {"Orders": (0, 1), "Payments": (3,)}, 40, True),
        ConsumerRow("consumer-2", {}, 2, False),
    )
    return Snapshot(elapsed_s, 100, 50, 42, event, rows)


def test_the_balance_tells_lost_from_repeated() -> None:
    """A message that came twice is not two messages, one that never came is lost."""
    tally = Tally(5)
    tally.acknowledge(4)
    for consumer, number in (("one", 0), ("one", 1), ("two", 1), ("two", 1), ("two", 3)):
        tally.deliver(consumer, number)
    assert tally.totals() == Totals(sent=4, consumed=3, lost=1, repeated=1)
    assert tally.took == {"one": 2, "two": 3}


def test_ownership_reads_as_words() -> None:
    """The queues stand behind their topic; whoever has gone is marked."""
    first, second = snapshot(0).rows
    assert owned(first) == "Orders 0 1  Payments 3"
    assert owned(second) == "left"
    assert owned(ConsumerRow("c", {"Orders": ()}, 0, True)) == "-"


def test_a_pipe_gets_a_line_a_second_and_one_per_event() -> None:
    """Events are told at once, the state no more than once a second, the last state always."""
    out = io.StringIO()
    lines = Lines(out)
    lines.show(snapshot(0.0))
    lines.show(snapshot(0.5))
    lines.show(snapshot(0.6, "a third joins"))
    lines.show(snapshot(1.1, "a third joins"))
    lines.close()
    printed = out.getvalue().splitlines()
    state = line(snapshot(0.0))
    assert [text for text in printed if "--" in text] == [
        "  0.0 s  -- two consumers share the queues",
        "  0.6 s  -- a third joins",
    ]
    assert len(printed) == 5
    assert printed[1] == state
    assert "sent 50 consumed 42  consumer-1 [Orders 0 1  Payments 3] took 40" in state
