"""The programs of examples/COMING_FROM.md: ours run, those of other clients are Python at least."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pytest
from support.runs.coming_from import programs

from aerobee.testing import ClusterThread

OURS: Final = programs("python")
THEIRS: Final = programs("py")
CLIENTS: Final = {"aiokafka": "aiokafka", "nats-py": "nats", "aio-pika": "aio_pika"}


@pytest.fixture
def namesrv() -> Iterator[str]:
    """Give the address of a cluster without topics or groups: all programs have the same ones."""
    with ClusterThread() as cluster:
        yield cluster.namesrv_addr


def test_each_client_stands_beside_ours() -> None:
    """Nobody is left out, on either side."""
    assert set(OURS) == set(THEIRS) | set(programs("java"))
    assert [" ".join(heading.split()[:2]) for heading in OURS] == [
        "From Kafka",
        "From NATS",
        "From RabbitMQ",
        "From RocketMQ's",
    ]


@pytest.mark.parametrize("heading", OURS)
def test_ours_sends_and_handles(heading: str, namesrv: str) -> None:
    """What was sent is handled by the same program, which serves on."""
    program = OURS[heading].replace("127.0.0.1:9876", namesrv)
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "NAMESRV_ADDR"},
    ) as child:
        try:
            assert child.stdout is not None
            handled = any(line == "handled one\n" for line in child.stdout)
        finally:
            child.kill()
    assert handled


@pytest.mark.parametrize("heading", THEIRS)
def test_theirs_is_python(heading: str) -> None:
    """It compiles without a warning, and imports the client that it stands for."""
    program = THEIRS[heading]
    compile(program, heading, "exec", dont_inherit=True)
    client = next(name for name in CLIENTS if name in heading)
    assert f"import {CLIENTS[client]}\n" in program or f"from {CLIENTS[client]} " in program
