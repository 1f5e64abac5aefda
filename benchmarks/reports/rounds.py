"""Measures servers in turn, A B A B, so that a slow minute of the machine meets all of them."""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Final

from support.interop.processes import ServerFailed

from benchmarks.generator import LoadFailed, Measurement
from benchmarks.loads import FEW_LAST, Load, Variant
from benchmarks.reports.memory import WarmMemory
from benchmarks.targets.brokers import (
    AerobeeSignedTarget,
    AerobeeTarget,
    AerobeeWithoutIndexTarget,
    BesideTarget,
    BrokerTarget,
    RocketMQTarget,
    RocketMQWithoutIndexTarget,
)
from benchmarks.targets.kafka import KafkaTarget
from benchmarks.targets.others import FloorTarget, NatsTarget, RedisTarget
from benchmarks.targets.target import Cpus, Target, Timing

WARM_WINDOW: Final = Timing(0.5, 4.0)  # of a JVM at full load
WARM_WINDOWS: Final = 3  # whose CPU per message is alike: it is warm
WARM_WINDOWS_MAX: Final = 20
WARM_SPREAD_MOST: Final = 0.10  # (largest - smallest) / median
REST_S: Final = 1.0  # at rest, files that were deleted and dirty pages leave the picture

Note = Callable[[str], None]
Cell = dict[str, list[Measurement]]
"""By server, one measurement for each round."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    cpus: Cpus
    directory: Path
    rounds: int
    timing: Timing
    peers: bool  # RocketMQ, and where a load says so Redis, NATS and Kafka
    warm_bytes: int = 0  # given up while a server is measured
    beside: Path | None = None  # another checkout that is measured, too
    without_index: bool = False  # ours without its index of keys, too; with peers always
    signed: bool = False  # ours with access control, too


@dataclass(slots=True)
class Report:
    """Everything that was measured."""

    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)  # by load and variant
    floors: dict[str, Measurement] = field(default_factory=dict)  # by load
    starts: dict[str, list[float]] = field(default_factory=dict)  # seconds, by server
    anonymous_bytes: dict[str, int] = field(default_factory=dict)  # by server, at rest
    versions: dict[str, str] = field(default_factory=dict)  # by server
    missing: dict[str, str] = field(default_factory=dict)  # why a server was left out
    failures: list[str] = field(default_factory=list)  # loads that brought a wrong reply, or none
    warmups: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """By load and server, the CPU us per message of each window until it was warm."""


def measure_load(plan: Plan, load: Load, report: Report, note: Note) -> None:
    """Measure one load in all its variants against every server it is meant for.

    A wrong reply ends the load; it is noted in `report.failures`, and the next load may begin.
    """
    try:
        _measure_load(plan, load, report, note)
    except (LoadFailed, ServerFailed) as error:
        lines = str(error).strip().splitlines()
        report.failures.append(f"{load.name}: {' ... '.join(dict.fromkeys((lines[0], lines[-1])))}")
        note(f"{load.name} failed: {error}")


def _measure_load(plan: Plan, load: Load, report: Report, note: Note) -> None:
    with ExitStack() as stack:
        warm: list[Target] = []
        for kind in _warm_kinds(plan, load, report):
            target = stack.enter_context(_running(plan, kind, load, report))
            target.prepare(load, load.variants[0])
            report.warmups[load.name, kind.name] = _warm_up(target, load, note)
            target.pause()
            warm.append(target)
        for variant in load.variants:
            _measure_variant(plan, load, variant, warm, report, note)


def _warm_up(target: Target, load: Load, note: Note) -> list[float]:
    """Run the load until the server's CPU per message is flat; return that of each window."""
    cpu_us: list[float] = []
    while len(cpu_us) < WARM_WINDOWS_MAX and not is_flat(cpu_us):
        note(f"{load.name}: {target.name} warms up, {cpu_us[-1] if cpu_us else 0:.1f} us")
        cpu_us.append(target.measure(load, load.variants[0], WARM_WINDOW).cpu_us)
    return cpu_us


def is_flat(cpu_us: Sequence[float]) -> bool:
    """Whether the last windows are so much alike that the server counts as warm."""
    last = sorted(cpu_us[-WARM_WINDOWS:])
    if len(last) < WARM_WINDOWS:
        return False
    return (last[-1] - last[0]) / median(last) <= WARM_SPREAD_MOST


def measure_floor(plan: Plan, loads: Sequence[Load], report: Report, note: Note) -> None:
    """Measure what the generator reaches against a server that stores nothing."""
    for load in loads:
        if load.workload in ("wake", "transact"):
            continue  # the pretender holds nothing back, and ends no transaction
        note(f"{load.name}: the generator alone")
        with tempfile.TemporaryDirectory(dir=plan.directory) as folder:
            target = FloorTarget(Path(folder) / "floor", plan.cpus)
            try:
                target.start()
                report.floors[load.name] = target.measure(load, FEW_LAST, Timing(0.3, 1.0))
            finally:
                target.stop()


def _measure_variant(
    plan: Plan, load: Load, variant: Variant, warm: Sequence[Target], report: Report, note: Note
) -> None:
    """Run all rounds of one variant; every server but the one that is measured is paused."""
    with ExitStack() as stack:
        targets: list[Target] = []
        for kind in _fresh_kinds(plan, load, variant, report):
            target = stack.enter_context(_running(plan, kind, load, report))
            target.prepare(load, variant)
            target.pause()
            targets.append(target)
        for target in warm:
            if variant == FEW_LAST or isinstance(target, BrokerTarget):
                target.resume()
                target.prepare(load, variant)
                target.pause()
                targets.append(target)
        cell: Cell = {}
        time.sleep(REST_S)
        for number in range(plan.rounds):
            for target in targets:
                note(f"{load.name}, {variant.label}: {target.name}, {number + 1} of {plan.rounds}")
                with WarmMemory(plan.warm_bytes).flowing():
                    target.resume()
                    measured = target.measure(load, variant, plan.timing)
                    target.pause()
                cell.setdefault(target.name, []).append(measured)
        report.cells[load.name, variant.label] = cell
        for target in targets:
            if target not in warm:
                target.resume()  # so that it can be stopped


def _fresh_kinds(plan: Plan, load: Load, variant: Variant, report: Report) -> list[type[Target]]:
    """Return the servers that are started for each variant."""
    kinds: list[type[Target]] = [AerobeeTarget]
    if plan.beside is not None:
        kinds.append(BesideTarget.of(plan.beside))
    if (plan.peers or plan.without_index) and load.stores:
        kinds.append(AerobeeWithoutIndexTarget)
    if plan.signed and load.workload in ("send", "batch", "pull"):
        kinds.append(AerobeeSignedTarget)
    if plan.peers and variant == FEW_LAST:
        kinds += [kind for kind in (RedisTarget, NatsTarget) if kind.name in load.others]
    return [kind for kind in kinds if kind.name not in report.missing]


def _warm_kinds(plan: Plan, load: Load, report: Report) -> list[type[Target]]:
    """Return the servers that are started for each load, and warmed up."""
    if not plan.peers:
        return []
    kinds: list[type[Target]] = [RocketMQTarget]
    if load.stores:
        kinds.append(RocketMQWithoutIndexTarget)
    kinds += [kind for kind in (KafkaTarget,) if kind.name in load.others]
    return [kind for kind in kinds if kind.name not in report.missing]


@contextmanager
def _running(plan: Plan, kind: type[Target], load: Load, report: Report) -> Iterator[Target]:
    """Start a server over an empty store, stop it and delete the store at the end."""
    with tempfile.TemporaryDirectory(dir=plan.directory, ignore_cleanup_errors=True) as folder:
        cpus = replace(plan.cpus, shared=load.all_cpus)
        target = make(kind, Path(folder) / "server", cpus, sync_flush=load.sync_flush)
        report.versions.setdefault(kind.name, target.version())
        try:
            target.start()
            yield target
        finally:
            target.stop()


def make(kind: type[Target], directory: Path, cpus: Cpus, *, sync_flush: bool) -> Target:
    """Return a server of the kind, not started."""
    if issubclass(kind, BrokerTarget):
        return kind(directory, cpus, sync_flush=sync_flush)
    return kind(directory, cpus)
