"""Draws the axes as SVG from what was kept of them: each cost as a multiple of the smallest size's.

    python -m benchmarks.growth.drawing RESULT.json DRAWING.svg

Both scales are logarithmic. A cost of one message is to stay flat; a total is to stay below the
dashed diagonal, which grows as the size does. Readable in a browser and in a dark one.
"""

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.targets.brokers import AerobeeTarget

COLUMNS: Final = 2
_WIDTH: Final = 430  # of a chart with its margins
_PLOT: Final = (360, 150)
_LEFT: Final = 46
_TOP: Final = 30
_LEGEND: Final = 16
_COLOURS: Final = 7
_STYLE: Final = """
text { font: 12px system-ui, sans-serif; fill: #1f2328; }
.axis { font-weight: 600; }
.small { font-size: 11px; fill: #59636e; }
.grid { stroke: #d1d9e0; stroke-width: 1; }
.as-size { stroke: #9aa4b2; stroke-dasharray: 2 4; }
path { fill: none; stroke-width: 2; } .theirs { stroke-dasharray: 6 4; stroke-width: 1.3; }
.c0 { stroke: #d97706; } .c1 { stroke: #2563eb; } .c2 { stroke: #16803c; }
.c3 { stroke: #9333ea; } .c4 { stroke: #be123c; } .c5 { stroke: #0891b2; }
.c6 { stroke: #6b7280; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .small { fill: #9198a1; } .grid { stroke: #30363d; }
  .as-size { stroke: #57606a; }
  .c0 { stroke: #f0a33e; } .c1 { stroke: #6ea8fe; } .c2 { stroke: #4ac26b; }
  .c3 { stroke: #c297ff; } .c4 { stroke: #ff7b93; } .c5 { stroke: #39c5cf; }
  .c6 { stroke: #9ca3af; }
}
"""

Points = list[tuple[int, float]]


def draw(result: Mapping[str, Any]) -> str:
    """Return the drawing of a result, one chart for each axis."""
    parts: list[str] = []
    top, tallest = 8, 0
    for number, axis in enumerate(result["axes"].values()):
        if number % COLUMNS == 0:
            top, tallest = top + tallest, 0
        lines = _lines(axis)
        parts += _chart(axis, lines, number % COLUMNS * _WIDTH, top)
        names = {name for name, _, _ in lines}
        tallest = max(tallest, _TOP + _PLOT[1] + 34 + _LEGEND * len(names) + 16)
    bottom = top + tallest
    machine = result["machine"]
    facts = f"{machine.get('cpu', '')}, {machine.get('cpus', '?')} CPUs, {result['date'][:10]}"
    legend = f"medians; whole lines Aerobee, broken ones RocketMQ, dotted: as the size; {facts}"
    parts.append(f'<text class="small" x="8" y="{bottom + 8}">{escape(legend)}</text>')
    width, height = COLUMNS * _WIDTH, bottom + 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" '
        'aria-label="What each cost grows to, by size, as a multiple of the smallest">\n'
        f"<style>{_STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _lines(axis: Mapping[str, Any]) -> list[tuple[str, str, Points]]:
    """Return title, server and medians of each line that is asked to stay below another."""
    found = []
    for key, line in axis["lines"].items():
        for server, measured in axis["servers"].items():
            points = [(int(size), median(values)) for size, values in measured.get(key, {}).items()]
            points = sorted((size, value) for size, value in points if value > 0)
            if line["kind"] != "shown" and len(points) > 1:
                first = points[0][1]
                found.append((line["title"], server, [(at, cost / first) for at, cost in points]))
    return found


def _chart(
    axis: Mapping[str, Any], lines: Sequence[tuple[str, str, Points]], left: int, top: int
) -> Iterator[str]:
    yield f'<text class="axis" x="{left + 8}" y="{top + 14}">{escape(axis["title"])}</text>'
    if not lines:
        return
    sizes = sorted({size for _, _, points in lines for size, _ in points})
    multiples = [cost for _, _, points in lines for _, cost in points]
    low = min(0, math.floor(math.log10(min(multiples))))
    high = max(1, math.ceil(math.log10(max(multiples))))
    x0, y0, (width, height) = left + _LEFT, top + _TOP, _PLOT
    span = math.log(sizes[-1] / sizes[0])

    def at(size: float, multiple: float) -> tuple[float, float]:
        up = (math.log10(multiple) - low) / (high - low)
        return x0 + width * math.log(size / sizes[0]) / span, y0 + height * (1 - up)

    for power in range(low, high + 1):
        _, y = at(sizes[0], 10.0**power)
        yield f'<line class="grid" x1="{x0}" x2="{x0 + width}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield (
            f'<text class="small" x="{x0 - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{10.0**power:g}x</text>"
        )
    for size in sizes:
        x, _ = at(size, 1)
        yield (
            f'<text class="small" x="{x:.1f}" y="{y0 + height + 16}" text-anchor="middle">'
            f"{size:,}</text>"
        )
    end = min(sizes[-1] / sizes[0], 10.0**high)
    (x1, y1), (x2, y2) = at(sizes[0], 1), at(sizes[0] * end, end)
    yield f'<line class="as-size" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
    titles = list(dict.fromkeys(title for title, _, _ in lines))
    for title, server, points in lines:
        kind = f"c{titles.index(title) % _COLOURS}"
        kind += "" if server == AerobeeTarget.name else " theirs"
        places = " L".join(f"{x:.1f} {y:.1f}" for x, y in (at(*point) for point in points))
        yield f'<path class="{kind}" d="M{places}"/>'
    for number, title in enumerate(titles):
        y = y0 + height + 34 + _LEGEND * number
        yield f'<path class="c{number % _COLOURS}" d="M{x0} {y - 4} h18"/>'
        yield f'<text class="small" x="{x0 + 24}" y="{y}">{escape(title)}</text>'


def main(words: Sequence[str]) -> None:
    """Draw one result."""
    source, target = map(Path, words)
    target.write_text(draw(json.loads(source.read_text())))


if __name__ == "__main__":
    main(sys.argv[1:])
