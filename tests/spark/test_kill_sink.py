"""A stream into brokers, its driver and workers killed: every row is stored, none of them twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from support.lake.plans import planned_pulls
from support.lake.sinking_child import stream

from aerobee.spark.network.brokers import Network
from aerobee.spark.network.reads import network_batches
from aerobee.spark.options.address import NetworkAddress
from aerobee.spark.options.query import parse_options
from aerobee.spark.records.columns import arrow_schema
from aerobee.spark.records.decode import Decoder
from aerobee.spark.topics import TopicChoice
from aerobee.testing import ClusterThread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TESTS = Path(__file__).parents[1]
TOPIC = "killed"
MARK = "SINKING_CHILD_FOLDER"
DAEMON = "aerobee.spark.sessions.python_daemon"
ROWS = 30_000  # of a micro-batch: enough to be killed in its middle
ROUNDS = int(os.environ.get("KILL_ROUNDS", "2"))
SECONDS_MAX = 240.0  # of a round, on a machine that does much else


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterThread]:
    """Two brokers, with two queues on each."""
    with ClusterThread(brokers=2) as cluster:
        cluster.create_topic(TOPIC, queues=2)
        yield cluster


class Driver:
    """The driver's process with all that it starts; a new one where the last is gone."""

    def __init__(self, cluster: ClusterThread, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._may_end = False  # a worker that was killed may have been committing

    def start(self) -> subprocess.Popen[bytes]:
        """The process, a new one if there is none."""
        if self._process is None:
            checkpoint = str(self._folder / "checkpoint")
            words = [self._cluster.namesrv_addr, TOPIC, checkpoint, str(ROWS), "100000"]
            with (self._folder / "log").open("a") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "support.lake.sinking_child", *words],
                    cwd=TESTS,
                    env={**os.environ, MARK: str(self._folder)},
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        return self._process

    def rows_come(self, count: int) -> int:
        """Wait until so many rows are stored; how many there are then."""
        process, deadline = self.start(), time.monotonic() + SECONDS_MAX
        with Network(NetworkAddress((self._cluster.namesrv_addr,))) as network:
            keys = list(network.bounds(TopicChoice(names=frozenset({TOPIC}))))
            while (found := sum(network.latest(keys).values())) < count:
                if process.poll() is not None:
                    assert self._may_end, (self._folder / "log").read_text()[-3000:]
                    self.kill()
                    process = self.start()
                assert time.monotonic() < deadline, "the rows did not come"
                time.sleep(0.01)
        return found

    def kill(self) -> None:
        """End the driver, its Java and its workers."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
            self._may_end = False

    def kill_workers(self) -> None:
        """End the workers: Spark tries their tasks again, but ends with one that commits."""
        self._may_end = True
        daemons: dict[int, psutil.Process] = {}
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if DAEMON in process.cmdline() and process.environ().get(MARK) == str(self._folder):
                    daemons[process.pid] = process
        for process in daemons.values():
            with suppress(psutil.Error):
                if process.ppid() in daemons:
                    process.kill()


@pytest.mark.timeout((3 + ROUNDS) * SECONDS_MAX)
def test_every_row_is_stored_once(
    spark: SparkSession, cluster: ClusterThread, tmp_path: Path
) -> None:
    """By tasks that are tried again, by the next driver, and by a session that runs already."""
    seed = int(os.environ.get("KILL_SEED", str(time.time_ns() % 1_000_000)))
    print(f"KILL_SEED={seed}")
    dice = random.Random(seed)
    drivers = [dice.random() < 0.5 for _ in range(ROUNDS - 2)] + [False, True][-ROUNDS:]
    driver = Driver(cluster, tmp_path)
    try:
        for kills_driver in drivers:
            for _ in range(6):  # a kill that comes too late hits nothing
                # within a micro-batch behind those that are done, and the one that runs
                done = stored(cluster) // ROWS * ROWS + ROWS
                found = driver.rows_come(done + dice.randrange(ROWS // 8, ROWS // 2))
                if kills_driver:
                    driver.kill()
                    found = stored(cluster)
                else:
                    driver.kill_workers()
                if found % ROWS:
                    break
            else:
                pytest.fail("no kill came within a micro-batch")
    finally:
        driver.kill()
    last = stored(cluster) // ROWS + 1
    stream(spark, cluster.namesrv_addr, TOPIC, str(tmp_path / "checkpoint"), ROWS, last)
    found_bodies = bodies(cluster)
    assert not [body for body, times in found_bodies.items() if times > 1]
    assert {b"%d" % number for number in range(ROWS * (last + 1))} <= found_bodies.keys()


def stored(cluster: ClusterThread) -> int:
    """How many messages are stored."""
    with Network(NetworkAddress((cluster.namesrv_addr,))) as network:
        bounds = network.bounds(TopicChoice(names=frozenset({TOPIC})))
    return sum(each.end for each in bounds.values())


def bodies(cluster: ClusterThread) -> Counter[bytes]:
    """How often each body is stored."""
    parsed = parse_options({"namesrv": cluster.namesrv_addr, "subscribe": TOPIC})
    found: Counter[bytes] = Counter()
    decoder = Decoder(arrow_schema(["body"]))
    for piece in planned_pulls(parsed, parsed.selection):
        for batch in network_batches(piece, parsed.selection, lambda broker: decoder):
            found.update(batch.column("body").to_pylist())
    return found
