"""Measures the Spark pipeline: CPU seconds of JVM and Python workers together, in turns.

    PYTHONPATH=tests python -m benchmarks.pipeline.spark_speed [--only PATH] [--rounds N]

`make bench-spark` runs it. Stores and Parquet files are made once, below build/. A row is printed
as soon as it is measured. Exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.pipeline.spark_by_hand import by_hand, network_reads
from benchmarks.pipeline.spark_paths import (
    Bench,
    Row,
    body_sums,
    counts,
    decoding,
    exports,
    queue_counts,
)
from benchmarks.pipeline.spark_stores import stored
from benchmarks.reports import machine
from benchmarks.reports.report import markdown
from benchmarks.targets import compiling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES: Final = 2
BODIES: Final = (1024, 128)
PATHS: Final[dict[str, Callable[[Bench], Iterator[Row]]]] = {
    "decode": decoding,
    "sum": body_sums,
    "count": counts,
    "queues": queue_counts,
    "export": exports,
    "by-hand": by_hand,
    "network": network_reads,
}
COLUMNS: Final = ("path", "records", "found", "bar", "")


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, keep; return the exit status."""
    options = _parser().parse_args(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and stop what was started
    mib, rounds = (64, 1) if options.quick else (options.mib, options.rounds)
    warm_rounds, warm_s = (1, 0.0) if options.quick else (3, 20.0)
    load_before, stolen_before = machine.load_average(), machine.stolen_seconds()
    print(f"preparing stores of {mib} MiB", file=sys.stderr, flush=True)
    home = compiling.BUILD / "stores"
    stores = [stored(home, mib << 20, body_bytes) for body_bytes in BODIES]
    bench = Bench(stores, rounds, warm_rounds, warm_s, _session)
    rows: list[Row] = []
    try:
        for name in options.only or PATHS:
            for row in PATHS[name](bench):
                rows.append(row)
                print(" | ".join(_cells(row)), flush=True)
    finally:
        bench.close()
    noise = {
        "load_average_before": load_before,
        "stolen_cpu_seconds": machine.stolen_seconds() - stolen_before,
    }
    _print(rows, noise)
    if not options.quick:
        home = compiling.BENCHMARKS if options.keep else compiling.BUILD
        print(f"kept in {_keep(home / 'results', rows, noise, mib)}")
    return 0 if all(row.met for row in rows) else 1


def _session() -> SparkSession:
    from aerobee.spark import session

    return session(f"local[{CORES}]", conf={"spark.driver.memory": "1g"})


def _cells(row: Row) -> tuple[str, ...]:
    return (row.path, row.records, row.found, row.bar, "met" if row.met else "MISSED")


def _print(rows: Sequence[Row], noise: dict[str, float]) -> None:
    print()
    for line in markdown(COLUMNS, [_cells(row) for row in rows]):
        print(line)
    print(
        f"\nNoise: load average {noise['load_average_before']:.2f} before,"
        f" {noise['stolen_cpu_seconds']:.1f} s stolen"
    )


def _keep(folder: Path, rows: Sequence[Row], noise: dict[str, float], mib: int) -> Path:
    described = machine.describe()
    date = datetime.now(UTC).isoformat(timespec="seconds")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"spark-{date[:10]}-{machine.slug(described)}.json"
    content = {
        "date": date,
        "machine": described,
        "noise": noise,
        "store_mib": mib,
        "rows": [asdict(row) for row in rows],
    }
    target.write_text(json.dumps(content, indent=1) + "\n")
    return target


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pipeline.spark_speed", description=__doc__
    )
    parser.add_argument("--only", action="append", choices=list(PATHS))
    parser.add_argument("--rounds", type=int, default=5, help="of each path, after 3 to warm up")
    parser.add_argument("--mib", type=int, default=1024, help="size of each store")
    parser.add_argument("--quick", action="store_true", help="see that it works: 64 MiB, one round")
    parser.add_argument("--keep", action="store_true", help="the result goes to benchmarks/results")
    return parser


if __name__ == "__main__":
    sys.exit(main())
