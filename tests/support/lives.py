"""A table of moves as its page draws it, and who writes what it governs."""

import ast
import enum
from pathlib import Path
from typing import Any

from aerobee.remoting.lives import Life


def drawing(life: Life[Any], first: enum.Enum) -> str:
    """Return the Mermaid drawing of a life; moves between the same two states share an arrow."""
    arrows: dict[tuple[enum.Enum, enum.Enum], list[str]] = {}
    for move in life.moves:
        arrows.setdefault((move.before, move.after), []).append(move.name)
    lines = [
        f"    {_name(before)} --> {_name(after)}: {', '.join(names)}"
        for (before, after), names in arrows.items()
    ]
    return "\n".join(
        ["```mermaid", "stateDiagram-v2", f"    [*] --> {_name(first)}", *lines, "```"]
    )


def table_of_states(states: type[enum.Enum], title: str) -> str:
    """Return the table of what each state means."""
    rows = [f"| {_name(state)} | {state.value} |" for state in states]
    return "\n".join([f"| state | {title} |", "| --- | --- |", *rows])


def table_of_moves(life: Life[Any]) -> str:
    """Return the table of when each move happens."""
    rows = [f"| `{move.name}` | {_name(move.before)} | {move.when} |" for move in life.moves]
    return "\n".join(["| move | from | when |", "| --- | --- | --- |", *rows])


def written_outside(
    folder: Path, fields: set[str], *, others: frozenset[str] = frozenset()
) -> list[str]:
    """Return where a module assigns one of the fields to anything but its own `self`.

    `others` are names of variables that hold something else with a field of that name.
    """
    return [
        f"{path.relative_to(folder)}:{node.lineno} {ast.unparse(node)}"
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, (ast.Store, ast.Del))
        and node.attr in fields
        and ast.unparse(node.value) not in {"self", *others}
    ]


def _name(state: enum.Enum) -> str:
    return state.name.lower()
