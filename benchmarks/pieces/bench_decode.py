"""How fast the log becomes Arrow columns on one core, without Spark.

    python -m benchmarks.pieces.bench_decode [--mib 256] [--rounds 5] [--numpy]

Writes stores of 1 KiB and 128 B bodies into a temporary folder, decodes them from the page
cache, and prints the best round and its ratio to a plain memory copy on this machine.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
from support.lake.plans import plan_log

from aerobee.spark.records import loops
from aerobee.spark.records.columns import USUAL, arrow_schema
from aerobee.spark.records.numpy_loops import NumpyLoops
from aerobee.spark.records.selection import EVERYTHING
from benchmarks.pipeline.spark_decoding import TWELVE, copy_rate, cpu_seconds, decode
from benchmarks.pipeline.spark_stores import write_store


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line per case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=256, help="size of each log")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--numpy", action="store_true", help="without the compiled loops")
    options = parser.parse_args(arguments)
    pa.set_cpu_count(1)
    memory = max(copy_rate() for _ in range(options.rounds))
    if options.numpy:
        loops.chosen = NumpyLoops()
    print(f"memory copy {memory / 1e9:.1f} GB/s; CPU seconds of one core, best round")
    cases = (
        ("1 field", ["queue_offset"], "map"),
        ("body", ["body"], "map"),
        ("12 columns, properties binary", TWELVE, "binary"),
        ("12 columns, properties map", TWELVE, "map"),
        ("14 columns, properties map", list(USUAL), "map"),
    )
    for body_bytes in (1024, 128):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            count = write_store(root, options.mib << 20, body_bytes)
            plan = plan_log(str(root), EVERYTHING, 1 << 40)
            for title, names, properties in cases:
                schema = arrow_schema(names, properties)
                work = partial(decode, plan, schema)
                assert work() == count
                spent = min(cpu_seconds(work) for _ in range(options.rounds))
                rate = (options.mib << 20) / spent
                print(
                    f"{body_bytes:5} B  {title:30} {count / spent / 1e6:6.2f} M records/s"
                    f" {rate / 1e9:6.2f} GB/s = {rate / memory:.2f} of a copy"
                )


if __name__ == "__main__":
    main()
