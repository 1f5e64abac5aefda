"""What commands print: tables on a terminal; lines, JSON, YAML or CSV for programs."""

import csv
import io
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import click
import msgspec

from aerobee.remoting.errors import AerobeeError

Cell: TypeAlias = str | int | float | bool | None
Format: TypeAlias = Literal["table", "text", "json", "yaml", "csv"]
FORMATS: Final = get_args(Format)

EXIT_INCOMPLETE: Final = 4
"""Some brokers did not answer: what is printed is what the others said."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""What a terminal obeys, or would break a line: names and bodies are what anybody sent."""
_RAW_IN_JSON: Final = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_GAP: Final = 2


class Table(NamedTuple):
    """Rows under heads; a head is the key in JSON and YAML, in words with "_" between."""

    heads: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]


def show(table: Table, kind: Format | None, caption: str = "") -> None:
    """Print a table on standard output: as one on a terminal, as lines in a pipe, or as `kind`.

    The caption is for people and appears on a terminal alone.
    """
    if kind is None:
        kind = "table" if sys.stdout.isatty() else "text"
    if kind == "table":
        _show_table(table, caption)
    else:
        click.echo(_WRITERS[kind](table), nl=False)


def tell_failed(failed: dict[str, AerobeeError]) -> None:
    """Say on standard error which brokers did not answer, and end with EXIT_INCOMPLETE."""
    for name, error in sorted(failed.items()):
        click.echo(f"warning: nothing from {name}: {error}", err=True)
    if failed:
        raise SystemExit(EXIT_INCOMPLETE)


def text_of(value: Cell) -> str:
    """Write a value for people and for lines: nothing in it ends a line or moves a cursor."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.10g}"
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], str(value))


def moment_of(ms: int) -> str | None:
    """Write a time in ms since 1970 as UTC text; None for none, a far-off one as the number."""
    if ms <= 0:
        return None
    try:
        moment = datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json_line(row: object) -> str:
    """Write one value as a line of JSON, which is YAML, and which a terminal can show."""
    return _escaped(msgspec.json.encode(row))


def _records(table: Table) -> list[dict[str, Cell]]:
    return [dict(zip(table.heads, row, strict=True)) for row in table.rows]


def _json(table: Table) -> str:
    return _escaped(msgspec.json.format(msgspec.json.encode(_records(table)), indent=2)) + "\n"


def _escaped(data: bytes) -> str:
    """Return JSON without what ends a line for some readers, and YAML and terminals obey."""
    return _RAW_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", data.decode())


def _yaml(table: Table) -> str:
    """Write a list of flat mappings; each scalar is JSON, which YAML 1.2 has as its own."""
    if not table.rows:
        return "[]\n"
    lines = [
        f"{'- ' if number == 0 else '  '}{head}: {json_line(value)}\n"
        for record in _records(table)
        for number, (head, value) in enumerate(record.items())
    ]
    return "".join(lines)


def _csv(table: Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.heads)
    writer.writerows(table.rows)
    return out.getvalue()


def _lines(table: Table) -> str:
    rows: Iterable[Sequence[Cell]] = [table.heads, *table.rows]
    return "".join("\t".join(map(text_of, row)) + "\n" for row in rows)


_WRITERS: Final[dict[str, Callable[[Table], str]]] = {
    "text": _lines,
    "json": _json,
    "yaml": _yaml,
    "csv": _csv,
}


def _show_table(table: Table, caption: str) -> None:
    from rich.console import Console
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn(box=None, padding=(0, _GAP, 0, 0), caption=Text(caption) if caption else None)
    for at, head in enumerate(table.heads):
        numbers = all(isinstance(row[at], int | float | None) for row in table.rows)
        drawn.add_column(
            head.replace("_", " "),
            justify="right" if numbers and table.rows else "left",
            overflow="fold",
        )
    for row in table.rows:
        # as text: what looks like markup is part of a name
        drawn.add_row(*(Text(_for_people(value)) for value in row))
    Console().print(drawn)


def _for_people(value: Cell) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return text_of(value)
