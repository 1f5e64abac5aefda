"""Our source and export against what people write by hand: a consumer, in one process.

The broker serves the same store over the network that the export reads at rest.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from benchmarks.pipeline.spark_cpu import Cost, cost
from benchmarks.pipeline.spark_paths import Bench, Row, cpu, store_name, walls
from benchmarks.pipeline.spark_stores import TOPICS, Stored, topic_name

if TYPE_CHECKING:
    from support.interop.aerobee_server import Aerobee

FASTER_LEAST: Final = 3.0
SLOWER_MOST: Final = 1.5


@contextmanager
def served(store: Stored) -> Iterator[Aerobee]:
    """A broker of ours over the store, and a nameserver."""
    from support.interop.aerobee_server import Aerobee

    with tempfile.TemporaryDirectory(prefix="served-") as folder:
        cluster = Aerobee(
            Path(folder),
            store=Path(store.root),
            settings={
                "mappedFileSizeCommitLog": str(store.log_bytes),
                "fileReservedTime": "100000",
            },
        )
        try:
            cluster.start()
            yield cluster
            cluster.stop()
        finally:
            cluster.kill()


def consumed(namesrv: str, out: Path | None) -> Cost:
    """What a consumer by hand takes for all messages; it writes Parquet where `out` is given."""
    command = [sys.executable, "-m", "benchmarks.pipeline.hand_consumer", namesrv]
    command += [",".join(map(topic_name, range(TOPICS))), str(out or "")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    return Cost(told["cpu_s"], told["wall_s"])


def by_hand(bench: Bench) -> Iterator[Row]:
    """Export of a store at rest against a consumer that writes Parquet, by the clock."""
    from aerobee.spark import export

    for store in bench.stores:
        hand: list[Cost] = []
        with tempfile.TemporaryDirectory(dir=Path(store.root).parent) as folder:
            ours, theirs = Path(folder, "ours"), Path(folder, "hand")

            def exported(s: Stored = store, to: Path = ours) -> None:
                shutil.rmtree(to, ignore_errors=True)
                export(s.root, to, compression="snappy", spark=bench.spark)

            (found,) = bench.in_turn(exported)
            with served(store) as cluster:
                for _ in range(bench.rounds):
                    shutil.rmtree(theirs, ignore_errors=True)
                    hand.append(consumed(cluster.namesrv, theirs))
        ratio = median(walls(hand)) / median(walls(found))
        yield Row(
            "export, against a consumer by hand",
            store_name(store),
            f"{ratio:.1f} times faster ({median(walls(found)):.1f} / {median(walls(hand)):.1f} s)",
            f"at least {FASTER_LEAST:.0f} times, by the clock",
            ratio >= FASTER_LEAST,
            {"wall_s": walls(found), "hand_wall_s": walls(hand), "hand_cpu_s": cpu(hand)},
        )


def network_reads(bench: Bench) -> Iterator[Row]:
    """Bodies summed up by Spark over the network, against our client's pulls alone, in turns.

    The client makes an object of each message, counts them and drops them; its start does not
    count. A query of Spark's counts as a whole: its plan, its pulls, the bodies' way as Arrow to
    the JVM, and their sum. The broker, whose work is the same for both, is left out.
    """
    for store in bench.stores:
        with served(store) as cluster:
            servers = (cluster.namesrv_process, cluster.broker_process)
            apart = {server.pid for server in servers if server is not None}

            def read(namesrv: str = cluster.namesrv) -> None:
                frame = bench.spark.read.format("rocketmq").option("namesrv", namesrv)
                frame.option("columns", "body").load().selectExpr("sum(length(body))").collect()

            found, pulled = [], []
            bench.warm(read)
            for _ in range(bench.rounds):
                found.append(cost(read, apart))
                pulled.append(consumed(cluster.namesrv, None))
        ratio = median(a / b for a, b in zip(cpu(found), cpu(pulled), strict=True))
        yield Row(
            "read over the network",
            store_name(store),
            f"{ratio:.2f} of the CPU of our client's pulls"
            f" ({median(cpu(found)):.2f} / {median(cpu(pulled)):.2f} s,"
            f" {1e6 * median(cpu(found)) / store.records:.1f} us per record;"
            f" by the clock {median(walls(found)):.1f} / {median(walls(pulled)):.1f} s)",
            f"at most {SLOWER_MOST:.1f}",
            ratio <= SLOWER_MOST,
            {
                "cpu_s": cpu(found),
                "client_cpu_s": cpu(pulled),
                "wall_s": walls(found),
                "client_wall_s": walls(pulled),
            },
        )
