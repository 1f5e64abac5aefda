"""kill -9 of a stream's driver and workers: its files hold every message once.

A broker's store grows while Spark streams it into Parquet files. Whoever is killed, and between
whichever of its steps: after a restart from the checkpoint nothing is missing and nothing is
there twice.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
from support.lake.stream_driver import PER_TRIGGER

from aerobee.storage.settings import StoreSettings
from aerobee.storage.store import MessageStore

pytestmark = pytest.mark.spark

ROUNDS = int(os.environ.get("KILL_ROUNDS", "3"))
QUEUES = 3
MARK = "STREAM_DRIVER_FOLDER"
AHEAD = 600  # messages that a driver may be behind; it has to come after in the end
VICTIMS = ("driver", "pyspark.worker", "python_streaming_source_runner")
HOSTS = bytes([127, 0, 0, 1, 0, 0, 0, 9]) + (10**12).to_bytes(8, "big")
HOSTS += bytes([127, 0, 0, 1, 0, 0, 0, 9]) + bytes(12)


class Producer:
    """Writes numbered messages into a store, some at a time."""

    def __init__(self, root: Path) -> None:
        settings = StoreSettings(
            root, segment_bytes=1 << 18, helper_process=False,
            flush_interval_ms=1, queue_flush_interval_ms=20)  # fmt: skip
        self.store = MessageStore(settings)
        self.store.open()
        self.number = 0

    def write(self, count: int) -> None:
        """Some messages more, the last one confirmed with all before it."""
        for _ in range(count):
            queue = self.store.queue("orders", self.number % QUEUES)
            body = b"%d" % self.number
            self.store.commit_log.append(queue, 0, 0, 5, HOSTS, body, b"TAGS\x01a\x02", 7)
            self.number += 1
        self.store.commit_log.commit()
        self.serve()

    def serve(self) -> None:
        """Do what a broker's loop does: streams see messages once a round has written entries."""
        self.store.poll()
        self.store.tick()

    def told(self) -> list[list[int]]:
        """What the driver should tell of each queue."""
        numbers = [range(queue_id, self.number, QUEUES) for queue_id in range(QUEUES)]
        return [
            [queue_id, len(each), len(each), len(each) - 1, sum(each)]
            for queue_id, each in enumerate(numbers)
        ]


class Driver:
    """The driver's process, which a test kills and starts again."""

    def __init__(self, store: Path, folder: Path) -> None:
        self.folder = folder
        self.errors = folder / "driver.log"
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        environment[MARK] = str(folder)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.lake.stream_driver", str(store), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors.open("a"),
            env=environment,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "streaming\n", self.errors.read_text()[-3000:]

    def kill(self) -> None:
        """End the driver, its JVM and its Python, without a chance to do anything."""
        for process in of_driver(self.folder, "org.apache.spark"):
            process.kill()
        self.process.kill()
        self.process.wait()

    def finish(self) -> list[list[int]]:
        """Let it take what is left; what the files hold then."""
        told, _ = self.process.communicate("", timeout=120)
        assert self.process.returncode == 0, self.errors.read_text()[-3000:]
        found: list[list[int]] = json.loads(told)
        return found


def of_driver(folder: Path, word: str) -> list[psutil.Process]:
    """The processes of a driver whose command lines have a word in them.

    Told by their environment: the daemon of the tasks' workers is no child of the driver's.
    """
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if word in " ".join(process.cmdline()) and process.environ().get(MARK) == str(folder):
                found.append(process)
    return found


def numbers(folder: Path) -> set[int]:
    """The micro-batches that a log of a checkpoint has."""
    return {int(path.name) for path in folder.glob("*") if path.name.isdigit()}


def until(producer: Producer, driver: Driver, condition: Callable[[], bool]) -> None:
    """Write messages until something is so."""
    deadline_s = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline_s, driver.errors.read_text()[-3000:]
        assert driver.process.poll() is None, driver.errors.read_text()[-3000:]
        if producer.number - AHEAD < PER_TRIGGER * len(
            numbers(driver.folder / "checkpoint/offsets")
        ):
            producer.write(10)
        producer.serve()
        time.sleep(0.002)


def kill_one(driver: Driver, victim: str, dice: random.Random) -> bool:
    """Kill one process of the driver's whose command has a word in it; whether there was one."""
    found = of_driver(driver.folder, victim)
    if not found:
        return False
    dice.choice(found).kill()
    return True


def test_every_message_arrives_once(tmp_path: Path) -> None:
    """Driver, tasks and the process that plans are killed in turn, at any of their steps."""
    pytest.importorskip("pyspark")
    seed = int(os.environ.get("KILL_SEED", str(time.time_ns() % 1_000_000)))
    print(f"KILL_SEED={seed}")
    dice = random.Random(seed)
    producer = Producer(tmp_path / "store")
    producer.write(100)
    planned, committed = (tmp_path / "checkpoint" / name for name in ("offsets", "commits"))
    driver = Driver(tmp_path / "store", tmp_path)
    try:
        victims = [VICTIMS[number % len(VICTIMS)] for number in range(ROUNDS)]
        dice.shuffle(victims)
        for victim in victims:
            goal = max(numbers(committed), default=-1) + dice.randrange(1, 4)
            running = dice.random() < 0.5  # killed while a micro-batch runs, or anywhere

            def reached(goal: int = goal, running: bool = running) -> bool:
                done, begun = max(numbers(committed), default=-1), max(numbers(planned), default=-1)
                return done >= goal and (begun > done or not running)

            until(producer, driver, reached)
            if victim == "driver":
                driver.kill()
                driver = Driver(tmp_path / "store", tmp_path)
            else:
                until(producer, driver, partial(kill_one, driver, victim, dice))
        goal = max(numbers(committed)) + 1
        until(producer, driver, lambda: max(numbers(committed)) > goal)
        assert producer.store.flusher.flush_all(10)
        assert driver.finish() == producer.told()
    finally:
        if driver.process.poll() is None:
            driver.kill()
        producer.store.close()
