"""Which files of tests take longest: the workers end together if these come first."""

from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[2]

# What is below this folder goes to one worker, where all of it shares one session: to start another
# and to warm it takes longer than most of these tests. But for what has processes of its own.
SESSION: Final = "tests/spark/"
APART: Final = ("test_cluster.py", "test_command.py", "test_without_java.py")
# So does what is below this one: its files look at the same sources, which each worker parses anew.
HOUSE: Final = "tests/house/"

# each starts Java of its own, many servers one after the other, a build, or many simulated runs;
# the slowest first
SLOWEST: Final = (
    "spark/test_export.py",  # and with it all that shares its session
    "crash/test_kill_streams.py",
    "spark/test_cluster.py",
    "packaging/test_distributions.py",
    "crash/test_kill_export.py",
    "spark/test_without_java.py",
    "spark/test_command.py",
    "simulation/test_mutations.py",
    "simulation/test_seeds.py",
    "simulation/test_pauses.py",
    "simulation/disk/test_disk_seeds.py",
    "simulation/disk/test_mutations.py",
    "simulation/test_replay.py",
    "crash/test_export_storm.py",
    "crash/test_kill_broker.py",
    "docs/test_readme.py",
    "docs/test_site.py",
    "docs/test_tutorial.py",
    "crash/test_kill_delays.py",
    "unit/client/test_features_of_brokers.py",
    "crash/test_kill_transactions.py",
    "crash/test_kill_timers.py",
    "crash/test_kill_index.py",
    "crash/test_kill_retries.py",
    "crash/test_kill_compaction.py",
    "crash/test_kill_queues.py",
    "unit/broker/features/timers/test_faults.py",
    "crash/test_batch_queue_crashes.py",
    "unit/storage/features/compaction/test_copies_in_bad_weather.py",
    "interop/test_consuming.py",
    "interop/stores/test_stores.py",
    "interop/test_joining.py",
    "interop/spark/test_spark_kinds.py",
    "interop/test_retries.py",
    "interop/test_resets.py",
)


def handed_out_with(nodeid: str) -> str:
    """Name what a test is handed out with: its file, or what shares a session, or sources."""
    file = nodeid.partition("::")[0]
    if file.startswith(HOUSE):
        return HOUSE
    return SESSION if file.startswith(SESSION) and not file.endswith(APART) else file


def slowest_first(items: list[pytest.Item]) -> None:
    """Sort tests by file: the slowest, the others that use Spark, then those with many tests.

    A worker takes the next file when it is done with one, so what is taken last should be short.
    """
    ranks = {TESTS / name: number for number, name in enumerate(SLOWEST)}
    tests_of: dict[Path, int] = {}
    spark = set[Path]()
    for item in items:
        tests_of[item.path] = tests_of.get(item.path, 0) + 1
        if item.get_closest_marker("spark") is not None:
            spark.add(item.path)

    def rank(item: pytest.Item) -> tuple[int, bool, int, str]:
        path = item.path
        return ranks.get(path, len(ranks)), path not in spark, -tests_of[path], str(path)

    items.sort(key=rank)
