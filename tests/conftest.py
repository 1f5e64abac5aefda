"""Settings of all tests: none judges by the clock of a busy machine, and Spark starts lean."""

import os

import pytest
from hypothesis import HealthCheck, settings
from support.slowest_files import slowest_first
from support.spark_java import LEAN, quick

settings.register_profile(
    "aerobee",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,  # a failure can be replayed from what it printed
    derandomize=bool(os.environ.get("CI")),  # a change is judged by the same examples each time
)
settings.load_profile("aerobee")

os.environ.setdefault("SPARK_SUBMIT_OPTS", quick())
os.environ.setdefault("SPARK_LAUNCHER_OPTS", LEAN)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Hand out the slowest files first, so that all workers end together."""
    slowest_first(items)
