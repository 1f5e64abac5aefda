"""Runs a load generator and looks at the server exactly while it measures."""

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

SECONDS_MAX: Final = 180  # of one run, whatever it is asked for


class LoadFailed(Exception):
    """A reply was wrong or missing, or the generator ended; the text says which and how."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a server had used up at one moment."""

    cpu_s: float
    syncs: int | None = None  # None where they cannot be counted


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run against one server; times in microseconds, latencies from request to reply."""

    messages: int
    seconds: float
    per_second: float
    cpu_us: float  # of the server, all processes, per message
    generator_us: float  # of the generator, per message
    p50_us: float
    p99_us: float
    p999_us: float
    max_us: float
    syncs: int | None  # by the server while it was measured


def run_marked(command: Sequence[str], sample: Callable[[], Sample]) -> Measurement:
    """Run a generator to its end and return what it and the server's samples say.

    The generator prints `begin` and `end` and waits for a line after each; its clock stands still
    meanwhile, so both samples cover what it measures and nothing else. LoadFailed on any error.
    """
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin and child.stdout and child.stderr
        samples, last = [], ""
        for line in child.stdout:
            if line.strip() in ("begin", "end"):
                samples.append(sample())
                child.stdin.write("\n")
                child.stdin.flush()
            last = line
        errors = child.stderr.read()
        status = child.wait(SECONDS_MAX)
    report = _report(last)
    if status or report.get("errors") or len(samples) != 2 or not report.get("messages"):
        problem = report.get("first_error") or errors.strip() or "nothing was measured"
        raise LoadFailed(f"{' '.join(command)}: {problem}")
    return _measurement(report, *samples)


def _report(line: str) -> dict[str, float]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _measurement(report: dict[str, float], before: Sample, after: Sample) -> Measurement:
    messages, seconds = int(report["messages"]), report["seconds"]
    counted = before.syncs is not None and after.syncs is not None
    return Measurement(
        messages=messages,
        seconds=seconds,
        per_second=messages / seconds,
        cpu_us=(after.cpu_s - before.cpu_s) / messages * 1e6,
        generator_us=report["generator_cpu_s"] / messages * 1e6,
        p50_us=report["p50_us"],
        p99_us=report["p99_us"],
        p999_us=report["p999_us"],
        max_us=report["max_us"],
        syncs=(after.syncs or 0) - (before.syncs or 0) if counted else None,
    )
