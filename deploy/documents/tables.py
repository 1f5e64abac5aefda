"""Tables of Markdown."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; bars and line breaks in cells are made harmless."""
    lines = [_row(head), _row(["---"] * len(head)), *map(_row, rows)]
    return "\n".join(lines)


def code(text: object) -> str:
    """Return text in the type of code, or nothing."""
    return f"`{text}`" if str(text) else ""


def sentence(docstring: str | None) -> str:
    """Return the first sentence of a docstring, on one line."""
    first = " ".join((docstring or "").split("\n\n")[0].split())
    return first.replace("<", "&lt;")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "&#124;") if "`" not in text else _with_code(text)


def _with_code(text: str) -> str:
    """Leave bars in code as they are, where tables do not look for them."""
    parts = " ".join(text.split()).split("`")
    return "`".join(
        part if number % 2 else part.replace("|", "&#124;") for number, part in enumerate(parts)
    )
