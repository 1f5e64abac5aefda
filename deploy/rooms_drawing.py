"""Draws the folders and their rooms from the imports: `python deploy/rooms_drawing.py`.

`docs/concepts/rooms.svg` shows what stands above what; a line leads from a folder to one that it
imports and that no other on the way imports for it, and passes between the boxes. A test compares
it with what this makes.
"""

import ast
import sys
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

DRAWING: Final = "docs/concepts/rooms.svg"
COLUMN: Final = 250  # of panels, in pixels
GAP: Final = 60  # between rows of panels
LINE: Final = 18
PADDING: Final = 12
STYLE: Final = """
text { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #1f2328; }
.title { font-weight: bold; font-size: 14px; }
.count { fill: #656d76; }
.panel { fill: #f6f8fa; stroke: #d0d7de; }
.way { stroke: #656d76; fill: none; marker-end: url(#tip); }
#tip path { fill: #656d76; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .count { fill: #8d96a0; }
  .panel { fill: #161b22; stroke: #30363d; }
  .way { stroke: #8d96a0; }
  #tip path { fill: #8d96a0; }
}
"""


class Room(NamedTuple):
    """A sub-package, with its modules, or the modules of a folder that are in none."""

    name: str
    modules: int
    about: str


class Panel(NamedTuple):
    """A folder as a box: where it stands, and its rooms from the highest layer to the lowest."""

    name: str
    x: float
    y: float
    height: float
    row_end: float
    rows: list[list[Room]]

    @property
    def middle(self) -> float:
        """Where lines begin and end."""
        return self.x + COLUMN / 2 - PADDING


def draw(root: Path) -> str:
    """Return the drawing of a tree as SVG."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = {
        contract.get("containers", [""])[0].removeprefix("aerobee."): contract["layers"]
        for contract in contracts["contracts"]
        if contract["type"] == "layers"
    }
    folders = [
        [each.strip().removeprefix("aerobee.") for each in row.split("|")] for row in layers[""]
    ]
    panels: dict[str, Panel] = {}
    width = max(len(row) for row in folders) * COLUMN
    y = float(PADDING)
    for row in folders:
        rooms = {each: list(_rows(root, each, layers.get(each, []))) for each in row}
        heights = {each: 2 * PADDING + LINE * (1 + len(rooms[each])) for each in row}
        end = y + max(heights.values())
        left = (width // COLUMN - len(row)) // 2  # boxes stand under each other: lines pass between
        for number, each in enumerate(row):
            x = (left + number) * COLUMN + PADDING
            panels[each] = Panel(each, x, y, heights[each], end, rooms[each])
        y = end + GAP
    body = [*_ways(root, panels), *(line for panel in panels.values() for line in _box(panel))]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y - GAP + PADDING:g}"'
        ' role="img" aria-label="folders and rooms, and who imports whom">\n'
        f"<style>{STYLE}</style>\n"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8"'
        ' markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _rows(root: Path, folder: str, layers: list[str]) -> Iterator[list[Room]]:
    """Yield the rooms of a folder, layer by layer; those that no contract names by their names."""
    rooms = {
        path.parent.name: _room(path.parent)
        for path in sorted((root / folder).glob("*/__init__.py"))
    }
    for layer in layers:
        row = [rooms.pop(name) for name in _names(layer) if name in rooms]
        if row:
            yield row
    yield from ([room] for room in rooms.values())
    beside = len([path for path in (root / folder).glob("*.py") if path.stem != "__init__"])
    if beside:
        yield [Room("", beside, "modules that are in no room")]


def _names(layer: str) -> list[str]:
    return layer.replace("|", " ").replace(":", " ").split()


def _room(folder: Path) -> Room:
    about = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    modules = [path for path in folder.rglob("*.py") if path.name != "__init__.py"]
    compiled = list(folder.rglob("*.pyx"))
    return Room(folder.name, len(modules) + len(compiled), about.partition("\n")[0])


def _box(panel: Panel) -> Iterator[str]:
    yield (
        f'<rect class="panel" rx="6" x="{panel.x:g}" y="{panel.y:g}" width="{COLUMN - 2 * PADDING}"'
        f' height="{panel.height:g}"/>'
    )
    x, y = panel.x + PADDING, panel.y + PADDING + LINE * 0.7
    yield f'<text class="title" x="{x:g}" y="{y:g}">{panel.name}</text>'
    for row in panel.rows:
        y += LINE
        parts = [
            f"<tspan><title>{escape(room.about)}</title>{room.name}</tspan>"
            f'<tspan class="count">{" " if room.name else "+ "}{room.modules}</tspan>'
            for room in row
        ]
        yield f'<text x="{x:g}" y="{y:g}">{"  ".join(parts)}</text>'


def _ways(root: Path, panels: dict[str, Panel]) -> Iterator[str]:
    """Yield a line for each import between folders that no other folder's stands for.

    A start that hands over to what stands above it (`consoleEnabled`) has none.
    """
    uses = {
        upper.name: {
            each for each in _imported(root, upper.name) & panels.keys() if panels[each].y > upper.y
        }
        for upper in panels.values()
    }
    for upper in panels.values():
        between = set[str]().union(*(_below(uses, each) for each in uses[upper.name]))
        for name in sorted(uses[upper.name] - between):
            yield f'<path class="way" d="{_way(upper, panels[name])}"/>'


def _way(upper: Panel, lower: Panel) -> str:
    """Return a line that passes no other panel: aside between rows, down between columns."""
    way = f"M{upper.middle:g} {upper.y + upper.height:g}V{upper.row_end:g}"
    next_row, last_gap = upper.row_end + GAP, lower.y - GAP
    if last_gap > next_row:
        aside = upper.x + COLUMN - PADDING if upper.x < lower.x else upper.x - PADDING
        way += f"L{aside:g} {next_row:g}V{last_gap:g}"
    return f"{way}L{lower.middle:g} {lower.y:g}"


def _below(uses: dict[str, set[str]], name: str) -> set[str]:
    return uses[name].union(*(_below(uses, each) for each in uses[name]))


def _imported(root: Path, folder: str) -> set[str]:
    found = set()
    for path in (root / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("aerobee."):
                found.add(str(node.module).split(".")[1])
    return found


if __name__ == "__main__":
    tree = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1]
    (tree / DRAWING).write_text(draw(tree))
