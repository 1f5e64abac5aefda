"""What was found along the axes, its rows for a table, and its place in a file of JSON."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.growth.axis import Axis, Reading
from benchmarks.growth.lines import Kind, Line, Rounds, costs, verdict
from benchmarks.reports.machine import slug
from benchmarks.targets.brokers import AerobeeTarget

Row = tuple[str, ...]


@dataclass(slots=True)
class Found:
    """What was measured along one axis."""

    axis: Axis
    rounds: dict[str, dict[str, dict[int, list[float]]]] = field(default_factory=dict)
    """By server, line and size: a value for each round."""
    refused: dict[str, dict[int, str]] = field(default_factory=dict)
    """By server and size, why a server took no more."""

    def add(self, server: str, reading: Reading) -> None:
        """Take in what one round found at one size."""
        for key, value in reading.values.items():
            by_size = self.rounds.setdefault(server, {}).setdefault(key, {})
            by_size.setdefault(reading.size, []).append(value)
        if reading.refused:
            self.refused.setdefault(server, {})[reading.size] = reading.refused

    def sizes(self) -> list[int]:
        """Return every size of which something is known."""
        measured = [
            size for lines in self.rounds.values() for each in lines.values() for size in each
        ]
        return sorted({*measured, *(size for each in self.refused.values() for size in each)})

    def of(self, server: str, line: Line) -> Rounds:
        """Return one line of one server."""
        return self.rounds.get(server, {}).get(line.key, {})


def columns(found: Found) -> Row:
    """Return the heads of an axis's table."""
    return (found.axis.unit, "server", *(f"{size:,}" for size in found.sizes()), "growth")


def rows(found: Found) -> Iterator[Row]:
    """Yield a row for each line and server, and one for what each further unit adds to a total."""
    for line in found.axis.lines:
        for server in found.rounds:
            rounds = found.of(server, line)
            said = _said(server, line, rounds)
            total = line.kind is Kind.TOTAL
            cells = (_cell(found, server, rounds, size) for size in found.sizes())
            yield (line.title, server, *cells, "" if total else said)
            if total:
                further = {cost.size: cost.middle * line.scale for cost in costs(line, rounds)}
                shown = (figure(further[at]) if at in further else "" for at in found.sizes())
                yield (line.further, server, *shown, said)


def refusals(found: Found) -> Iterator[str]:
    """Yield a sentence for each size that a server did not take."""
    for server, sizes in found.refused.items():
        for size, why in sizes.items():
            yield f"{server} refused {size:,} {found.axis.unit}: {why}"


def missed(found: Found) -> Iterator[str]:
    """Yield each line of ours that grows faster than the work, or misses a bar of its own."""
    for line in found.axis.lines:
        said = verdict(line, found.of(AerobeeTarget.name, line))
        if said is not None and not said.met:
            yield f"{found.axis.name}: {line.further or line.title}: {said.text}"


def figure(value: float) -> str:
    """Return a number of three digits, whole from 100 on."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def document(
    axes: list[Found], machine: Mapping[str, Any], noise: Mapping[str, float]
) -> dict[str, Any]:
    """Return everything as JSON takes it; each axis has its date and noise."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "date": date,
        "machine": machine,
        "noise": noise,
        "axes": {
            found.axis.name: {
                "date": date,
                "noise": noise,
                "title": found.axis.title,
                "unit": found.axis.unit,
                "lines": {
                    line.key: {"title": line.title, "kind": line.kind} for line in found.axis.lines
                },
                "servers": found.rounds,
                "refused": found.refused,
                "missed": list(missed(found)),
            }
            for found in axes
        },
    }


def keep(folder: Path, content: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """Write `growth-<date>-<machine>.json`; axes of that day that were not measured now stay.

    Returns the path and what stands there, as read back.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"growth-{content['date'][:10]}-{slug(content['machine'])}.json"
    earlier = json.loads(target.read_text())["axes"] if target.exists() else {}
    content = content | {"axes": earlier | content["axes"]}
    target.write_text(json.dumps(content, indent=1) + "\n")
    return target, json.loads(target.read_text())


def _cell(found: Found, server: str, rounds: Rounds, size: int) -> str:
    values = rounds.get(size)
    if values:
        low, high = figure(min(values)), figure(max(values))
        middle = figure(median(values))
        return middle if low == high else f"{middle} ({low} to {high})"
    return "refused" if size in found.refused.get(server, {}) else ""


def _said(server: str, line: Line, rounds: Rounds) -> str:
    said = verdict(line, rounds)
    if said is None:
        return ""
    if server != AerobeeTarget.name:
        return said.text
    return f"{'met' if said.met else 'MISSED'}: {said.text}"
