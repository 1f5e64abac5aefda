"""Measures Aerobee, alone or beside RocketMQ, Kafka, Redis Streams and NATS JetStream.

    PYTHONPATH=tests python -m benchmarks [--peers] [--beside DIR] [--only LOAD] [--rounds N]

`make bench` and `make bench-peer` run it. Exits with 1 when a bar is missed.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from benchmarks import results
from benchmarks.loads import LOADS, Load
from benchmarks.pieces import micro
from benchmarks.reports import machine
from benchmarks.reports.charts import draw
from benchmarks.reports.memory import MIB, needed_bytes
from benchmarks.reports.progress import progress
from benchmarks.reports.report import missed, print_report
from benchmarks.reports.rounds import Note, Plan, Report, measure_floor, measure_load
from benchmarks.starts import measure_starts
from benchmarks.targets import compiling
from benchmarks.targets.brokers import RocketMQTarget, RocketMQWithoutIndexTarget
from benchmarks.targets.kafka import KafkaTarget
from benchmarks.targets.others import NatsTarget, RedisTarget
from benchmarks.targets.target import Cpus, Timing

ROUNDS_LEAST: Final = 3  # of a comparison: one round has no spread


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, keep; return the exit status."""
    parser = _parser()
    options = parser.parse_args(words)
    compared = bool(options.peers or options.beside or options.without_index or options.signed)
    if compared and options.rounds is not None and options.rounds < ROUNDS_LEAST:
        parser.error(f"--rounds {options.rounds}: a comparison takes at least {ROUNDS_LEAST}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and stop what was started
    loads = [load for load in LOADS if not options.only or load.name in options.only]
    report, described = Report(), machine.describe()
    cpus = Cpus.apart()
    try:
        compiling.load_generator()
        compiling.sync_counter()
    except (compiling.ToolMissing, compiling.BuildFailed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not options.no_micro and not options.only:
        micro.run_all()
    if options.peers:
        report.missing = _missing()
    load_before, stolen_before = machine.load_average(), machine.stolen_seconds()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.dir) as folder:
        timing = Timing(options.warmup, options.seconds)
        rounds = options.rounds or (ROUNDS_LEAST if compared else 1)
        warm_bytes = needed_bytes(timing.warmup_s + timing.measured_s)
        if options.warm_memory is not None:
            warm_bytes = options.warm_memory * MIB
        plan = Plan(
            cpus,
            Path(folder),
            rounds,
            timing,
            options.peers,
            warm_bytes,
            options.beside,
            options.without_index,
            options.signed,
        )
        with progress(len(loads) + 2) as (note, advance):
            _measure(plan, loads, report, note, advance)
    noise = {
        "load_average_before": load_before,
        "stolen_cpu_seconds": machine.stolen_seconds() - stolen_before,
    }
    print_report(report, described)
    print(
        f"Noise: load average {load_before:.2f} before, {noise['stolen_cpu_seconds']:.1f} s stolen"
    )
    whole = options.peers and not options.only
    home = compiling.BENCHMARKS if options.keep or whole else compiling.BUILD
    document = results.document(report, described, noise)
    kept = results.write(home / "results", document)
    print(f"kept in {kept}")
    if options.peers:
        drawing = home / "comparison.svg"
        drawing.write_text(draw(document))
        print(f"drawn in {drawing}")
    return 1 if missed(report) else 0


def _measure(
    plan: Plan, loads: Sequence[Load], report: Report, note: Note, advance: Callable[[], None]
) -> None:
    measure_floor(plan, loads, report, note)
    advance()
    for load in loads:
        measure_load(plan, load, report, note)
        advance()
    measure_starts(plan, report, note)
    advance()


def _missing() -> dict[str, str]:
    """Return the servers that this machine cannot run, with the reason."""
    found: dict[str, str] = {}
    for name, needs in (
        (RocketMQTarget.name, (("java", "a JDK 17 or later"), ("mvn", "Maven"))),
        (RocketMQWithoutIndexTarget.name, (("java", "a JDK 17 or later"), ("mvn", "Maven"))),
        (RedisTarget.name, (("redis-server", "apt-get install redis-server"),)),
    ):
        for program, hint in needs:
            try:
                compiling.tool(program, f"install {hint}")
            except compiling.ToolMissing as error:
                found[name] = str(error)
    built: tuple[tuple[str, Callable[[], object]], ...] = (
        (NatsTarget.name, compiling.nats_program),
        (KafkaTarget.name, compiling.kafka_classes),
    )
    for name, build in built:
        try:
            build()
        except (compiling.ToolMissing, compiling.BuildFailed) as error:
            found[name] = str(error)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--peers", action="store_true", help="RocketMQ, Kafka, Redis and NATS, too")
    parser.add_argument(
        "--beside", type=_checkout, help="another checkout, set up: before a change"
    )
    parser.add_argument(
        "--without-index",
        action="store_true",
        help="ours without its index of keys, too (with --peers always)",
    )
    parser.add_argument(
        "--signed", action="store_true", help="ours with access control on, and signing clients"
    )
    parser.add_argument("--only", action="append", choices=[load.name for load in LOADS])
    parser.add_argument("--rounds", type=int, help="of each load (1; beside others 3)")
    parser.add_argument("--seconds", type=float, default=3.0, help="measured in each round")
    parser.add_argument("--warmup", type=float, default=1.0, help="seconds before each round")
    parser.add_argument(
        "--warm-memory", type=int, metavar="MIB", help="freed at need in each round (0: none)"
    )
    parser.add_argument("--dir", type=Path, help="where the stores are while they are measured")
    parser.add_argument("--keep", action="store_true", help="the result goes to benchmarks/results")
    parser.add_argument("--no-micro", action="store_true", help="leave the micro-benchmarks out")
    return parser


def _checkout(word: str) -> Path:
    folder = Path(word).resolve()
    if not (folder / ".venv" / "bin" / "broker").exists():
        raise argparse.ArgumentTypeError(
            f"{folder} is no checkout that is set up: make setup there"
        )
    return folder


if __name__ == "__main__":
    sys.exit(main())
