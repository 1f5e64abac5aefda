"""How long a broker takes until it answers, and how much memory it takes at rest."""

import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.reports.rounds import Note, Plan, Report
from benchmarks.targets import processes
from benchmarks.targets.brokers import AerobeeTarget, BrokerTarget, RocketMQTarget

STARTS: Final = 3
REST_S: Final = 3.0  # after which memory is looked at


def measure_starts(plan: Plan, report: Report, note: Note) -> None:
    """Start each broker a few times over an empty store, in turn."""
    kinds: list[type[BrokerTarget]] = [AerobeeTarget]
    if plan.peers and RocketMQTarget.name not in report.missing:
        kinds.append(RocketMQTarget)
    for number in range(STARTS):
        for kind in kinds:
            note(f"{kind.name} starts, {number + 1} of {STARTS}")
            _start(plan, kind, report, look_at_memory=number == 0)


def _start(plan: Plan, kind: type[BrokerTarget], report: Report, *, look_at_memory: bool) -> None:
    with tempfile.TemporaryDirectory(dir=plan.directory, ignore_cleanup_errors=True) as folder:
        target = kind(Path(folder) / "server", plan.cpus, sync_flush=False)
        try:
            target.start()
            report.starts.setdefault(kind.name, []).append(target.start_seconds())
            if look_at_memory:
                time.sleep(REST_S)
                report.anonymous_bytes[kind.name] = processes.anonymous_bytes(target.pids())
        finally:
            target.stop()
