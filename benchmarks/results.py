"""Keeps what was measured as JSON, together with the machine that it came from."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.reports.machine import slug
from benchmarks.reports.rounds import Report


def document(report: Report, machine: dict[str, Any], noise: dict[str, float]) -> dict[str, Any]:
    """Return everything as JSON takes it."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine,
        "noise": noise,
        "versions": report.versions,
        "missing": report.missing,
        "failures": report.failures,
        "loads": [
            {
                "load": load,
                "variant": variant,
                "servers": {name: [asdict(run) for run in runs] for name, runs in cell.items()},
            }
            for (load, variant), cell in report.cells.items()
        ],
        "warm_up_cpu_us": [
            {"load": load, "server": server, "windows": windows}
            for (load, server), windows in report.warmups.items()
        ],
        "generator_alone": {load: asdict(floor) for load, floor in report.floors.items()},
        "start_seconds": report.starts,
        "anonymous_bytes": report.anonymous_bytes,
    }


def write(folder: Path, content: dict[str, Any]) -> Path:
    """Write `<date>-<machine>.json` and return its path; a second run of the day replaces it."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{content['date'][:10]}-{slug(content['machine'])}.json"
    target.write_text(json.dumps(content, indent=1) + "\n")
    return target
