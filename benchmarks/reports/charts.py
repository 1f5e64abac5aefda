"""Draws a comparison as SVG from what was kept of it: messages a second and what each cost.

    python -m benchmarks.reports.charts RESULT.json DRAWING.svg

`make bench-peer` draws it after a whole run. Bars are medians, the lines across their ends reach
from the smallest to the largest round; readable in a browser and in a dark one.
"""

import json
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.loads import LOADS

WIDTH: Final = 860
_LABEL: Final = 190
_BAR: Final = 420
_ROW: Final = 20
_GAP: Final = 34
_STYLE: Final = """
text { font: 12px system-ui, sans-serif; fill: #1f2328; }
.load { font-weight: 600; }
.small { fill: #59636e; }
.bar { fill: #9aa4b2; } .ours { fill: #d97706; }
.reach { stroke: #1f2328; stroke-width: 1; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .small { fill: #9198a1; } .bar { fill: #57606a; } .ours { fill: #f0a33e; }
  .reach { stroke: #e6edf3; }
}
"""


@dataclass(frozen=True, slots=True)
class Group:
    """Bars below one title: by name the rounds of a figure, and what stands behind the bar."""

    title: str
    values: Mapping[str, Sequence[float]]
    texts: Mapping[str, str]


def draw(result: Mapping[str, Any]) -> str:
    """Return the drawing of a result, one group of bars for each load."""
    titles = {load.name: load.title for load in LOADS}
    groups: dict[str, Group] = {}
    for row in result["loads"]:
        if row["load"] in groups or row["load"] not in titles or len(row["servers"]) < 2:
            continue
        rates = {name: [run["per_second"] for run in runs] for name, runs in row["servers"].items()}
        cpu_us = {
            name: median(run["cpu_us"] for run in runs) for name, runs in row["servers"].items()
        }
        groups[row["load"]] = Group(
            f"{titles[row['load']]} ({row['variant']})",
            rates,
            {
                name: f"{median(rates[name]):,.0f} msg/s, {cpu_us[name]:.1f} us of CPU each"
                for name in rates
            },
        )
    machine = result["machine"]
    facts = f"{machine.get('cpu', '')}, {machine.get('cpus', '?')} CPUs, {result['date'][:10]}"
    label = "Messages a second of each server, by load"
    return picture(groups.values(), facts, label, ours=("Aerobee",))


def picture(groups: Iterable[Group], facts: str, label: str, *, ours: Collection[str]) -> str:
    """Return a drawing of groups of bars; those of `ours` have the colour."""
    parts: list[str] = []
    at = 8
    for group in groups:
        parts.append(f'<text class="load" x="8" y="{at + 14}">{escape(group.title)}</text>')
        at += 22
        parts += _bars(group, at, ours)
        at += _ROW * len(group.values) + _GAP - 22
    parts.append(f'<text class="small" x="8" y="{at + 12}">{escape(facts)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{at + 22}" '
        f'viewBox="0 0 {WIDTH} {at + 22}" role="img" '
        f'aria-label="{escape(label)}">\n'
        f"<style>{_STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _bars(group: Group, top: int, ours: Collection[str]) -> Iterator[str]:
    scale = _BAR / max(max(each) for each in group.values.values())
    for row, (name, found) in enumerate(group.values.items()):
        y = top + row * _ROW
        end = _LABEL + median(found) * scale
        kind = "bar ours" if name in ours else "bar"
        yield f'<text x="{_LABEL - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>'
        yield (
            f'<rect class="{kind}" x="{_LABEL}" y="{y + 3}" width="{end - _LABEL:.1f}" '
            f'height="{_ROW - 6}" rx="2"/>'
        )
        low, high = (_LABEL + each * scale for each in (min(found), max(found)))
        yield (
            f'<line class="reach" x1="{low:.1f}" x2="{high:.1f}" y1="{y + _ROW / 2}" '
            f'y2="{y + _ROW / 2}"/>'
        )
        text = escape(group.texts[name])
        yield f'<text x="{_LABEL + _BAR + 12}" y="{y + 13}">{text}</text>'


def main(words: Sequence[str]) -> None:
    """Draw one result."""
    source, target = map(Path, words)
    target.write_text(draw(json.loads(source.read_text())))


if __name__ == "__main__":
    main(sys.argv[1:])
