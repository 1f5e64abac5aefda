"""Settings of all tests: none judges by the clock of a busy machine, and Spark starts lean."""

import os

import pytest
from hypothesis import HealthCheck, settings
from support.slowest_files import slowest_first

settings.register_profile(
    "aerobee",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,  # a failure can be replayed from what it printed
)
settings.load_profile("aerobee")

# Spark's sessions here live for seconds, in which an optimising compiler, a parallel garbage
# collector and looking through the bytecode of every class only take the cores: without them the
# tests of Spark need half the time.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions"
QUICK += " -XX:-BytecodeVerificationRemote"
os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK)
os.environ.setdefault("SPARK_LAUNCHER_OPTS", QUICK)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Hand out the slowest files first, so that all workers end together."""
    slowest_first(items)
