"""Celery on each server: a worker runs what is sent, in time, again, and after a death."""

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
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.rocketmq_server import RocketMQ
from support.runs.source_tree import ROOT

import aerobee.integrations.kombu

__all__ = ["aerobee"]

pytestmark = [pytest.mark.interop, pytest.mark.needs("java")]

SHOP = ROOT / "tests/unit/integrations/kombu"
SECONDS_MAX = 60


@pytest.fixture(scope="module", params=[Aerobee, RocketMQ], ids=["aerobee", "rocketmq"])
def namesrv(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The nameserver of a cluster with one broker."""
    kind: type[Cluster] = request.param
    with kind(tmp_path_factory.mktemp("celery")) as cluster:
        yield cluster.namesrv


def waiting(app: Celery) -> int:
    """How many tasks of the usual queue are not acknowledged."""
    with app.connection_for_read() as connection:
        declared = connection.default_channel.queue_declare(
            app.conf.task_default_queue, passive=True
        )
        return int(declared.message_count)


def test_a_worker_runs_tasks(namesrv: str, tmp_path: Path) -> None:
    """At once, later by a timer, again, in chains; commands are answered; a kill repeats a task."""
    (tmp_path / "results").mkdir()
    app = Celery("sender", broker=f"aerobee://{namesrv}", backend=f"file://{tmp_path}/results")
    environment = {
        **os.environ,
        "SHOP_FOLDER": str(tmp_path),
        "SHOP_NAMESRV": namesrv,
        "PYTHONPATH": str(SHOP),
    }
    workers: list[subprocess.Popen[bytes]] = []

    def start(name: str) -> "subprocess.Popen[bytes]":
        with (tmp_path / f"{name}.log").open("wb") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "shop", "worker", "-c", "2", "-n", name],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        workers.append(worker)
        return worker

    def task(name: str, *given: object) -> Any:
        return app.signature(f"shop.{name}", args=given)

    try:
        killed = start("one@here")
        assert task("add", 2, 3).delay().get(timeout=SECONDS_MAX) == 5
        later = task("add", 1, 1).apply_async(countdown=3)
        inspect = app.control.inspect(timeout=SECONDS_MAX, limit=1)
        assert inspect.ping() == {"one@here": {"ok": "pong"}}
        assert inspect.scheduled() == {"one@here": []}
        assert later.get(timeout=SECONDS_MAX) == 2
        assert task("second_time_lucky").delay().get(timeout=SECONDS_MAX) == 1
        added = chain(task("add", 1, 2), task("add", 4))
        assert added.delay().get(timeout=SECONDS_MAX) == 7
        slow = task("slow", "cake").delay()
        notes = tmp_path / "notes"
        ends = time.monotonic() + 2 * SECONDS_MAX
        while not notes.exists() or not notes.read_text().endswith("\n"):  # made, then written
            assert time.monotonic() < ends
            time.sleep(0.05)
        os.killpg(killed.pid, signal.SIGKILL)
        (tmp_path / "cake-may-end").touch()
        start("two@here")
        assert slow.get(timeout=SECONDS_MAX) == "cake"
        while waiting(app):  # a task is acknowledged once its result is there, not before
            assert time.monotonic() < ends
            time.sleep(0.05)
        assert app.control.purge() == 0
    finally:
        for worker in workers:
            if worker.poll() is None:
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
        app.close()
    begun = notes.read_text().splitlines()
    assert begun == ["cake begins", "cake begins", "cake ends"]
