"""The pytest plugin in somebody else's test suite, and the package without pytest."""

import subprocess
import sys
from pathlib import Path

SUITE = """
import asyncio
from aerobee.client import Message, Producer

def test_blocking(rocketmq, rocketmq_namesrv_addr):
    rocketmq.create_topic("suite", queues=2)
    assert rocketmq_namesrv_addr == rocketmq.namesrv_addr

    async def send():
        async with Producer(namesrv=rocketmq_namesrv_addr) as producer:
            return await producer.send(Message("suite", b"hello"))

    assert asyncio.run(send()).queue.topic == "suite"

def test_shared(rocketmq):
    assert rocketmq.cluster.brokers
"""


def test_fixtures_work_in_a_strangers_suite(tmp_path: Path) -> None:
    """Installing the package is all that it takes."""
    (tmp_path / "test_suite.py").write_text(SUITE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_a_cluster_needs_no_pytest() -> None:
    """Where pytest is not installed everything but the plugin works."""
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "from aerobee.testing import ClusterThread\n"
        "with ClusterThread() as cluster: print(cluster.namesrv_addr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("127.0.0.1:"), done.stderr


def test_the_plugin_loads_nothing_until_it_is_used() -> None:
    """Every pytest run of anybody who has the package installed pays for the plugin's imports."""
    code = (
        "import sys, aerobee.testing.plugin\n"
        "print([name for name in ('aerobee.broker', 'msgspec', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
