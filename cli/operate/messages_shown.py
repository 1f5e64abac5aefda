"""Messages as they are printed: one after the other, so that nothing waits for the last."""

import csv
import sys
from typing import Any, Final, Self

import click

from aerobee.cli.operate.jsonl import message_row
from aerobee.cli.operate.output import Format, Table, json_line, moment_of, show, text_of
from aerobee.client.received import ReceivedMessage

HEADS: Final = ("stored", "broker", "queue", "offset", "tags", "keys", "body")
BODY_CHARS: Final = 80
"""Of a body on a terminal; other forms have all of it."""
TABLE_ROWS: Final = 1_000


class MessagePrinter:
    """Prints messages in the form that is wanted, JSON as one object a line.

    A table on a terminal is drawn at the end, unless messages come as a stream.
    """

    def __init__(self, kind: Format | None, *, streams: bool = False) -> None:
        if kind is None:
            kind = "table" if sys.stdout.isatty() and not streams else "text"
        self._kind = kind
        self._rows: list[tuple[Any, ...]] = []
        self._csv = csv.writer(sys.stdout, lineterminator="\n")
        self.count = 0

    def __enter__(self) -> Self:
        if self._kind == "csv":
            self._csv.writerow(HEADS)
        return self

    def __exit__(self, *_: object) -> None:
        self._draw()

    def show(self, message: ReceivedMessage) -> None:
        """Print one message, or keep it for the table."""
        self.count += 1
        if self._kind == "json":
            click.echo(json_line(message_row(message)))
        elif self._kind == "yaml":
            rows = message_row(message).items()
            click.echo("---\n" + "\n".join(f"{key}: {json_line(value)}" for key, value in rows))
        elif self._kind == "csv":
            self._csv.writerow(_row(message))
        elif self._kind == "table":
            row = _row(message)
            body = row[-1]
            if len(body) > BODY_CHARS:
                body = body[:BODY_CHARS] + "..."
            self._rows.append((*row[:-1], body))
            if len(self._rows) == TABLE_ROWS:
                self._draw()
        else:
            click.echo("\t".join(text_of(cell) for cell in _row(message)))
        sys.stdout.flush()

    def _draw(self) -> None:
        if self._kind == "table":
            show(Table(HEADS, self._rows), "table", f"{self.count} messages")
            self._rows = []


def _row(message: ReceivedMessage) -> tuple[Any, ...]:
    body = message.body.decode("utf-8", "replace")
    if message.damage is not None:
        body = f"(damaged: {message.damage.reason})"
    return (
        moment_of(message.store_timestamp_ms),
        message.queue.broker_name,
        message.queue.queue_id,
        message.queue_offset,
        message.tags or "",
        " ".join(message.keys),
        body,
    )
