"""Which files of tests take longest: the workers end together if these come first."""

from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[1]

# each starts Java of its own, many servers one after the other, a build, or many simulated runs;
# the slowest first
SLOWEST: Final = (
    "crash/test_kill_export.py",
    "spark/test_cluster.py",
    "crash/test_kill_streams.py",
    "spark/test_kill_sink.py",
    "spark/test_without_java.py",
    "packaging/test_distributions.py",
    "simulation/test_seeds.py",
    "simulation/disk/test_disk_seeds.py",
    "simulation/test_mutations.py",
    "simulation/disk/test_mutations.py",
    "simulation/test_pauses.py",
    "simulation/test_replay.py",
    "crash/test_export_storm.py",
    "crash/test_kill_broker.py",
    "docs/test_readme.py",
    "crash/test_kill_delays.py",
    "interop/test_consuming.py",
    "interop/test_stores.py",
    "interop/test_joining.py",
    "interop/test_spark_kinds.py",
    "interop/test_retries.py",
    "interop/test_resets.py",
)


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
