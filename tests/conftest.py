"""Settings of all tests: none judges by the clock of a busy machine, and Spark starts lean."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from support.lake.spark_java import LEAN, quick
from support.runs.reruns import allow_reruns
from support.runs.slowest_files import handed_out_with, slowest_first

if TYPE_CHECKING:
    from collections.abc import Generator

    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

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


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import what the tests need without searching it for garbage again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Hand out the slowest files first, so that all workers end together."""
    slowest_first(items)
    allow_reruns(items)


def pytest_collection_finish() -> None:
    """Keep what is here for the whole run out of every later search for garbage."""
    if "aerobee.storage.disk.aio" in sys.modules:
        from support.disks.kept_contexts import hand_on_contexts

        hand_on_contexts()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Hand out tests by file, but keep together what shares a session."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Sharing(LoadFileScheduling):  # type: ignore[misc]  # which has no types
        def _split_scope(self, nodeid: str) -> str:
            return handed_out_with(nodeid)

    return Sharing(config, log)
