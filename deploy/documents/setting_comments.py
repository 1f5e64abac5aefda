"""What the source says of each setting: the comments beside and above its field."""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

_COMMENT = re.compile(r"(?:^|\s)#\s?(.*)$")


class Comment(NamedTuple):
    """What is said of a field, and under which heading it stands."""

    text: str
    heading: str


def comments(settings: type) -> dict[str, Comment]:
    """Return what is said of the fields that a class declares itself; nothing of compiled ones."""
    source = _source(settings)
    return {} if source is None else _of_class(source, settings.__name__)


@cache
def _of_class(source: Path, name: str) -> dict[str, Comment]:
    lines = source.read_text().splitlines()
    found: dict[str, Comment] = {}
    heading = ""
    for node in ast.walk(ast.parse("\n".join(lines))):
        if not isinstance(node, ast.ClassDef) or node.name != name:
            continue
        for field in node.body:
            if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                continue
            above = list(_above(lines, field.lineno - 1))
            if above and _is_heading(lines, field.lineno - 1 - len(above), above[0]):
                heading = above.pop(0)
            said = [" ".join(above), *_beside(lines[field.lineno - 1 : field.end_lineno])]
            found[field.target.id] = Comment("; ".join(filter(None, said)), heading)
    return found


def _source(settings: type) -> Path | None:
    try:
        path = Path(inspect.getfile(settings))
    except (OSError, TypeError):
        return None
    return path if path.suffix == ".py" else None


def _above(lines: list[str], number: int) -> Iterator[str]:
    """Yield the lines of comment that end where a field begins, from the first one on."""
    begin = number
    while begin and lines[begin - 1].strip().startswith("#"):
        begin -= 1
    for line in lines[begin:number]:
        yield line.strip().removeprefix("#").strip()


def _beside(lines: list[str]) -> Iterator[str]:
    """Yield what is said in a field's own lines: at its end, and of what is ours within it."""
    for number, line in enumerate(lines, 1):
        found = _COMMENT.search(line)
        if found and (number == len(lines) or found[1].startswith("ours")):
            yield found[1]


def _is_heading(lines: list[str], number: int, text: str) -> bool:
    """Whether a comment stands for what follows as a whole: after an empty line, and short."""
    alone = number == 0 or not lines[number - 1].strip()
    return alone and text[:1].isupper() and ":" not in text and len(text) < 40
