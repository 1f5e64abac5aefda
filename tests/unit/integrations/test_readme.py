"""The examples of integrations/README.md run as they stand."""

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aerobee.testing import ClusterThread

ROOT = Path(__file__).parents[3]
README = ROOT / "integrations" / "README.md"
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterThread]:
    """Serve for all the examples."""
    with ClusterThread(root=tmp_path_factory.mktemp("cluster")) as served:
        served.create_topic("orders")
        yield served


def example(heading: str, cluster: ClusterThread) -> str:
    """Return the program under a heading, with this cluster's address."""
    part = README.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (program,) = re.findall(r"```python\n(.*?)```", part, re.DOTALL)
    return str(program).replace("127.0.0.1:9876", cluster.namesrv_addr)


def project(heading: str, cluster: ClusterThread, folder: Path) -> None:
    """Write the files under a heading, each of which begins with its name."""
    part = README.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    for name, text in re.findall(r"```python\n# (\S+)\n(.*?)```", part, re.DOTALL):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text.replace("127.0.0.1:9876", cluster.namesrv_addr))


def run(program: str, folder: Path) -> str:
    """Run a program to its end and return what it prints."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_effects_happen_once(cluster: ClusterThread, tmp_path: Path) -> None:
    """An order and its message are written together; the message pays the order."""
    assert run(example("Effects that happen once", cluster), tmp_path) == "paid: True\n"
    with sqlite3.connect(tmp_path / "shop.db") as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
        assert {"aerobee_inbox", "aerobee_outbox"} <= set(tables)
        assert database.execute("SELECT count(*) FROM aerobee_outbox").fetchone() == (0,)
    database.close()


def test_a_process_has_metrics(cluster: ClusterThread, tmp_path: Path) -> None:
    """One message was sent and is handled."""
    printed = run(example("Metrics of a process", cluster), tmp_path)
    assert 'messages_sent_total{producer_group="clicks",topic="clicked"} 1.0' in printed
    assert (
        'rocketmq_delivery_latency_count{consumer_group="counting",topic="clicked"} 1.0' in printed
    )


def test_a_web_application_takes_orders(cluster: ClusterThread, tmp_path: Path) -> None:
    """Served to a test client, which gets the health, too; its handler prints what it got."""
    application = example("A web application", cluster)
    program = application + USED_BY
    printed = run(program, tmp_path)
    assert "200 ok" in printed
    assert "200 True" in printed
    assert "to bill: b'7'" in printed


USED_BY = """
import time
from fastapi.testclient import TestClient

with TestClient(app) as client:
    for _ in range(500):
        health = client.get("/health/")
        if health.status_code == 200 and consumer.queues():
            break
        time.sleep(0.01)
    print(health.status_code, health.json()["status"])
    ordered = client.post("/orders/7")
    print(ordered.status_code, bool(ordered.json()["message_id"]))
    while not consumer.statistics().handlers.succeeded:
        time.sleep(0.01)
"""


def test_a_django_project_sends_and_consumes(cluster: ClusterThread, tmp_path: Path) -> None:
    """A request whose transaction fails sends nothing; SIGTERM ends the command, all committed."""
    project("A Django project", cluster, tmp_path)
    cluster.create_topic("shopped", 2)
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "shop.settings", "PYTHONPATH": "."}
    manage = [sys.executable, "-m", "django"]
    migrate = [*manage, "migrate", "--run-syncdb", "--verbosity", "0"]
    subprocess.run(migrate, check=True, cwd=tmp_path, env=environment, timeout=TIMEOUT_S)
    program = [sys.executable, "-W", "error::ResourceWarning", "-c", REQUESTS]
    subprocess.run(program, check=True, cwd=tmp_path, env=environment, timeout=TIMEOUT_S)
    consume = [*manage, "consume", "billing"]
    with subprocess.Popen(consume, stdout=-1, text=True, cwd=tmp_path, env=environment) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(3)]
        child.terminate()
        rest = child.stdout.read()
    assert child.returncode == 0
    assert lines[0] == "consuming for billing\n"
    assert sorted(lines[1:]) == ["billed b'7'\n", "billed b'8'\n"]
    assert rest == "all that was handled is committed\n"
    with sqlite3.connect(tmp_path / "shop.db") as database:
        assert database.execute("SELECT number, billed FROM shop_order").fetchall() == [
            ("7", 1),
            ("8", 1),
        ]
    database.close()


REQUESTS = """
import django
django.setup()
from django.db import IntegrityError
from django.test import Client

client = Client(raise_request_exception=False, headers={"host": "localhost"})
assert client.get("/orders/7").status_code == 200
assert client.get("/orders/7").status_code == 500
assert client.get("/orders/8").status_code == 200
"""
