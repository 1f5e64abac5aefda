"""Which tests may try a second time: what a busy machine's scheduler can spoil, and nothing else.

A test that drives processes, sockets and clocks of its own, or Spark, depends on when a foreign
scheduler lets each of them run. Such a test is run again when it fails, once; the summary of the
run names it as one that was. Pure code, properties, golden files and simulations fail at once.
"""

from functools import cache
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[2]
FOLDERS: Final = (
    "adversity",
    "cli",
    "crash",
    "docs",
    "examples",
    "spark",
    "testing",
    "unit/integrations",
    "unit/remoting/net",
)
FILES: Final = (  # of other folders, those that start processes or wait for clocks
    "unit/benchmarks/test_loadgen.py",
    "unit/broker/cluster/test_with_nameservers.py",
    "unit/broker/front/test_overload.py",
    "unit/client/instance/test_stopping.py",
    "unit/client/poll/test_serving.py",
    "unit/client/push/test_consumer_crash.py",
    "unit/client/push/test_loop_watch.py",
    "unit/client/sync/test_consumers_that_ask.py",
    "unit/client/sync/test_exit.py",
    "unit/client/sync/test_forks.py",
    "unit/client/sync/test_push_consumer.py",
    "unit/client/sync/test_waiting.py",
    "unit/client/test_features_of_brokers.py",
    "unit/client/group/test_help.py",
    "unit/client/group/test_looking_in.py",
    "unit/client/test_real_broker.py",
    "unit/client/transactions/test_recipe.py",
    "unit/namesrv/test_main.py",
    "unit/spark/test_live_store.py",
    "unit/spark/network/test_pulls.py",
    "unit/spark/sessions/test_python_daemon.py",
    "unit/spark/sinks/test_task.py",
    "unit/spark/streams/test_stream_kills.py",
    "unit/storage/log/test_allocated_space.py",
    "unit/storage/log/test_allocator.py",
    "unit/storage/log/test_log_cache.py",
    "unit/storage/log/test_space_left.py",
    "unit/storage/log/test_space_weather.py",
    "unit/storage/test_disk.py",
    "unit/storage/test_many_files.py",
)


@cache
def may_be_rerun(path: Path) -> bool:
    """Whether the tests of a file drive what the machine schedules."""
    if not path.is_relative_to(TESTS):
        return False
    file = path.relative_to(TESTS)
    return file.as_posix() in FILES or any(file.is_relative_to(each) for each in FOLDERS)


def allow_reruns(items: list[pytest.Item]) -> None:
    """Give each such test one more try."""
    for item in items:
        if may_be_rerun(item.path):
            item.add_marker(pytest.mark.flaky(reruns=1))
