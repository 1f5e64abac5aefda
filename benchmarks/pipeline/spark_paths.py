"""The paths whose speed is measured, each with its bar: what is done, and what it is held against.

A path yields a row after all of its rounds; the sides of a comparison take turns in each round.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from benchmarks.pipeline.spark_cpu import Cost, cost
from benchmarks.pipeline.spark_floor import bare_bodies
from benchmarks.pipeline.spark_stores import Stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GB: Final = 1e9
GIB: Final = 1 << 30
COPY_RATE: Final = 16 * GB  # of the machine that the bars of decoding are for
DECODE_RATE_LEAST: Final = 3 * GB  # bytes of the log per second, 1 KiB bodies
DECODE_RECORDS_LEAST: Final = 5e6  # per second, 128 B bodies
COUNT_CPU_MOST: Final = 0.6, 0.2  # seconds, and more for each GiB
FEWER_BYTES_LEAST: Final = 50.0
BY_TAGS: Final = "topic, tags_code"
EXPORT_RATE_LEAST: Final = 0.6 * GB
EXPORT_CPU_LEAST: Final = 3.0


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report; `rounds` are the figures behind it."""

    path: str
    records: str
    found: str
    bar: str
    met: bool
    rounds: dict[str, list[float]] = field(default_factory=dict)


@dataclass(slots=True)
class Bench:
    """What the paths share: the stores, how often to measure, and Spark where it is needed."""

    stores: Sequence[Stored]
    rounds: int
    warm_rounds: int
    warm_s: float
    make_session: Callable[[], SparkSession]
    _session: SparkSession | None = None

    @property
    def spark(self) -> SparkSession:
        """The session, made when it is first needed."""
        if self._session is None:
            self._session = self.make_session()
        return self._session

    def close(self) -> None:
        """Stop the session."""
        if self._session is not None:
            self._session.stop()

    def in_turn(self, *works: Callable[[], object]) -> list[list[Cost]]:
        """The cost of each work in each round, after some rounds that do not count."""
        self.warm(*works)
        found: list[list[Cost]] = [[] for _ in works]
        for _ in range(self.rounds):
            for number, work in enumerate(works):
                found[number].append(cost(work))
        return found

    def warm(self, *works: Callable[[], object]) -> None:
        """Do each work in turn, some rounds and some time: Java compiles as long as that lasts."""
        began, done = time.monotonic(), 0
        while done < self.warm_rounds or time.monotonic() - began < self.warm_s:
            for work in works:
                work()
            done += 1

    def read(self, store: Stored, columns: str, **options: str) -> DataFrame:
        """Our source over one of the stores."""
        reader = self.spark.read.format("rocketmq").options(**options)
        return reader.option("columns", columns).load(store.root)

    def sum_of_bodies(self, store: Stored) -> None:
        """A query that reads all bodies."""
        self.read(store, "body").selectExpr("sum(length(body))").collect()

    def sum_of_bodies_in_parquet(self, store: Stored) -> None:
        """The same by Spark's own source, of the same records in Parquet."""
        self.spark.read.parquet(store.parquet).selectExpr("sum(length(body))").collect()

    def sum_of_bare_bodies(self, store: Stored) -> None:
        """The same of bodies that a Python source has at hand."""
        bare_bodies(self.spark, store).selectExpr("sum(length(body))").collect()

    def count(self, store: Stored) -> None:
        """A query that counts."""
        self.read(store, "queue_id").count()

    def count_by_tags(self, store: Stored) -> None:
        """A query that the ConsumeQueues answer."""
        self.read(store, BY_TAGS).groupBy("topic", "tags_code").count().collect()


def cpu(costs: Sequence[Cost]) -> list[float]:
    """The CPU seconds of some rounds."""
    return [each.cpu_s for each in costs]


def walls(costs: Sequence[Cost]) -> list[float]:
    """The seconds of the clock of some rounds."""
    return [each.wall_s for each in costs]


def store_name(store: Stored) -> str:
    return f"{store.body_bytes} B, {store.log_bytes / GIB:.2g} GiB"


def decoding(bench: Bench) -> Iterator[Row]:
    """12 columns without Spark, on one core."""
    import pyarrow as pa
    from support.lake.plans import plan_log

    from aerobee.spark.records.columns import arrow_schema
    from aerobee.spark.records.selection import EVERYTHING
    from benchmarks.pipeline.spark_decoding import TWELVE, copy_rate, cpu_seconds, decode

    pa.set_cpu_count(1)
    schema = arrow_schema(TWELVE, "binary")
    for store in bench.stores:
        plan = plan_log(store.root, EVERYTHING)
        spent, copies = [], []
        for _ in range(bench.warm_rounds + bench.rounds):
            copies.append(copy_rate())
            spent.append(cpu_seconds(partial(decode, plan, schema)))
        # other work on the machine slows both; the best round of each is nearest to their speed
        best, scale = min(spent), max(copies) / COPY_RATE
        small = store.body_bytes < 1024
        rate = store.records / best if small else store.log_bytes / best
        least = (DECODE_RECORDS_LEAST if small else DECODE_RATE_LEAST) * scale
        unit, name = (1e6, "M records/s") if small else (GB, "GB/s")
        yield Row(
            "decode 12 columns",
            store_name(store),
            f"{rate / unit:.2f} {name}",
            f"{least / unit:.2f} {name}, at a memory copy of {max(copies) / GB:.1f} GB/s",
            rate >= least,
            {"cpu_s": spent, "copy_bytes_per_s": copies},
        )


def body_sums(bench: Bench) -> Iterator[Row]:
    """sum(length(body)) of a narrow schema, against Parquet; and what no Python source is below."""
    for store in bench.stores:
        ours, theirs, bare = bench.in_turn(
            partial(bench.sum_of_bodies, store),
            partial(bench.sum_of_bodies_in_parquet, store),
            partial(bench.sum_of_bare_bodies, store),
        )
        ratio, least = (
            median(a / b for a, b in zip(cpu(each), cpu(theirs), strict=True))
            for each in (ours, bare)
        )
        yield Row(
            "sum(length(body))",
            store_name(store),
            f"{ratio:.2f} of Parquet's CPU ({median(cpu(ours)):.2f} / {median(cpu(theirs)):.2f} s);"
            f" bodies that are only handed over {least:.2f}",
            "at most 1.00",
            ratio <= 1.0,
            {"cpu_s": cpu(ours), "parquet_cpu_s": cpu(theirs), "bare_cpu_s": cpu(bare)},
        )


def counts(bench: Bench) -> Iterator[Row]:
    """count() of one narrow column."""
    for store in bench.stores:
        (ours,) = bench.in_turn(partial(bench.count, store))
        most = COUNT_CPU_MOST[0] + COUNT_CPU_MOST[1] * store.log_bytes / GIB
        found = median(cpu(ours))
        yield Row(
            "count()",
            store_name(store),
            f"{found:.2f} CPU s",
            f"at most {most:.2f}",
            found <= most,
            {"cpu_s": cpu(ours)},
        )


def queue_counts(bench: Bench) -> Iterator[Row]:
    """count() by topic and hash of tags: how much is read, planning included, and its cost."""
    from benchmarks.pipeline.spark_bytes import bytes_read

    for store in bench.stores:
        (ours,) = bench.in_turn(partial(bench.count_by_tags, store))
        read = bytes_read(store, BY_TAGS)
        fewer = store.log_bytes / read
        counts_here = store.body_bytes >= 1024
        yield Row(
            "count() by topic and tags",
            store_name(store),
            f"{fewer:.0f} times fewer bytes than the log ({median(cpu(ours)):.2f} CPU s)",
            f"at least {FEWER_BYTES_LEAST:.0f}" if counts_here else "(for 1 KiB)",
            fewer >= FEWER_BYTES_LEAST or not counts_here,
            {"cpu_s": cpu(ours), "bytes": [float(read)]},
        )


def exports(bench: Bench) -> Iterator[Row]:
    """Export to snappy Parquet, properties either way, against Spark's writer behind our source."""
    from aerobee.spark import export

    for store in bench.stores:
        with tempfile.TemporaryDirectory(dir=Path(store.root).parent) as folder:

            def ours(kind: str, s: Stored = store, to: str = f"{folder}/ours") -> None:
                shutil.rmtree(to, ignore_errors=True)
                export(s.root, to, compression="snappy", properties=kind, spark=bench.spark)

            def spark(s: Stored = store, to: str = f"{folder}/spark") -> None:
                frame = bench.spark.read.format("rocketmq").load(s.root)
                frame.write.mode("overwrite").option("compression", "snappy").parquet(to)

            found, plain, written = bench.in_turn(
                partial(ours, "map"), partial(ours, "binary"), spark
            )
        rate = store.log_bytes / median(cpu(found))
        ratio = median(b / a for a, b in zip(cpu(found), cpu(written), strict=True))
        yield Row(
            "export to snappy Parquet",
            store_name(store),
            f"{rate / 1e6:.0f} MB/s of CPU; Spark's writer takes {ratio:.1f} times the CPU",
            f"{EXPORT_RATE_LEAST / 1e6:.0f} MB/s; {EXPORT_CPU_LEAST:.0f} times",
            rate >= EXPORT_RATE_LEAST and ratio >= EXPORT_CPU_LEAST,
            {"cpu_s": cpu(found), "spark_cpu_s": cpu(written), "wall_s": walls(found)},
        )
        rate = store.log_bytes / median(cpu(plain))
        yield Row(
            "export, binary properties",
            store_name(store),
            f"{rate / 1e6:.0f} MB/s of CPU",
            f"{EXPORT_RATE_LEAST / 1e6:.0f} MB/s",
            rate >= EXPORT_RATE_LEAST,
            {"cpu_s": cpu(plain), "wall_s": walls(plain)},
        )
