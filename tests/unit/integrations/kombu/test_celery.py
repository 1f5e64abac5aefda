"""A worker process of Celery runs tasks: at once, later, again, in chains, and after its death."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, chain

from aerobee.testing import ClusterThread

HERE = Path(__file__).parent
SECONDS_MAX = 60


class Shop:
    """The shop's application, as a program that sends its tasks has it, and its workers."""

    def __init__(self, namesrv: str, folder: Path) -> None:
        self.folder = folder
        (folder / "results").mkdir()
        self._workers: list[subprocess.Popen[bytes]] = []
        self._environment = {
            **os.environ,
            "SHOP_FOLDER": str(folder),
            "SHOP_NAMESRV": namesrv,
            "PYTHONPATH": str(HERE),
        }
        self.app = Celery(
            "sender", broker=f"aerobee://{namesrv}", backend=f"file://{folder}/results"
        )

    def worker(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start a worker process."""
        with (self.folder / f"worker-{len(self._workers)}").open("wb") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "shop", "worker", "-l", "INFO", *arguments],
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._workers.append(worker)
        return worker

    def task(self, name: str, *given: Any, **how: Any) -> Any:
        """Return a task's signature."""
        return self.app.signature(f"shop.{name}", args=given, options=how)

    def notes(self) -> list[str]:
        """What tasks have written down."""
        path = self.folder / "notes"
        return path.read_text().splitlines() if path.exists() else []

    def wait_for_note(self, note: str) -> None:
        """Wait until a task has written that down."""
        deadline_s = time.monotonic() + SECONDS_MAX
        while note not in self.notes():
            assert time.monotonic() < deadline_s, self.notes()
            time.sleep(0.02)

    def close(self) -> None:
        """End workers, however they are."""
        for worker in self._workers:
            kill(worker)
        self.app.close()


def kill(worker: "subprocess.Popen[bytes]") -> None:
    """End a worker and its pool as a loss of power does."""
    if worker.poll() is None:
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


@pytest.fixture
def shop(cluster: ClusterThread, tmp_path: Path) -> Iterator[Shop]:
    """A shop whose tasks wait in the cluster of the module."""
    shop = Shop(cluster.namesrv_addr, tmp_path)
    yield shop
    shop.close()


def test_a_prefork_worker_runs_what_is_sent(cluster: ClusterThread, shop: Shop) -> None:
    """At once, later, again and in chains; it answers to commands, and outlives its broker."""
    worker = shop.worker("-c", "2", "-n", "one@here")
    assert shop.task("add", 2, 3).delay().get(timeout=SECONDS_MAX) == 5
    later = shop.task("add", 1, 1).apply_async(countdown=2)
    inspect = shop.app.control.inspect(timeout=SECONDS_MAX, limit=1)
    assert inspect.ping() == {"one@here": {"ok": "pong"}}
    assert inspect.scheduled() == {"one@here": []}  # it is the broker that waits
    assert not later.ready()
    assert later.get(timeout=SECONDS_MAX) == 2
    assert shop.task("second_time_lucky").delay().get(timeout=SECONDS_MAX) == 1
    added = chain(shop.task("add", 1, 2), shop.task("add", 4), shop.task("add", 5))
    assert added.delay().get(timeout=SECONDS_MAX) == 12
    cluster.restart_broker()
    assert shop.task("add", 5, 5).delay().get(timeout=SECONDS_MAX) == 10
    assert inspect.ping() == {"one@here": {"ok": "pong"}}
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(SECONDS_MAX) == 0


def test_a_task_whose_worker_is_killed_runs_again(shop: Shop) -> None:
    """What was done before does not, and what was not yet begun is run once."""
    killed = shop.worker("-P", "solo", "-n", "killed@here")
    shop.task("noted", "before").delay().get(timeout=SECONDS_MAX)
    slow = shop.task("slow", "cake").delay()
    shop.wait_for_note("cake begins")
    behind = shop.task("noted", "behind").delay()
    kill(killed)
    (shop.folder / "cake-may-end").touch()
    worker = shop.worker("-P", "solo", "-n", "second@here")
    assert slow.get(timeout=SECONDS_MAX) == "cake"
    behind.get(timeout=SECONDS_MAX)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(SECONDS_MAX) == 0
    assert sorted(shop.notes()) == ["before", "behind", "cake begins", "cake begins", "cake ends"]
