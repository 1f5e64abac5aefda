"""Every recipe runs as it stands, and says of a year's store what is true."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.disks.stores import Stored, StoreWriter, properties, read_log

from aerobee.testing import ClusterThread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

RECIPES = Path(__file__).parents[2] / "spark" / "RECIPES.md"
BEGIN = datetime(2025, 1, 1, 9, tzinfo=UTC)
STEP = timedelta(hours=9)  # about two messages a day, all year, and many on the first of July
BUSY = datetime(2025, 7, 1, 10, 30, tzinfo=UTC)
EVERY_DAY, BUSY_COUNT = 972, 60


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A year of orders, what could not be handled, and what two groups have committed."""
    writer = StoreWriter(tmp_path_factory.mktemp("recipes") / "store", 1 << 17)
    moments = [BEGIN + STEP * number for number in range(EVERY_DAY)] + [BUSY] * BUSY_COUNT
    for number, moment in enumerate(sorted(moments)):
        pairs = {"KEYS": f"order-{number} all", "TAGS": "a", "UNIQ_KEY": f"{number:032X}"}
        writer.append(message("orders", number, moment, pairs))
        if number % 100 == 0:
            group, failures = ("billing", 16) if number % 200 else ("mailing", 1)
            pairs |= {"DLQ_ORIGIN_TOPIC": "orders", "RETRY_TOPIC": "orders"}
            writer.append(message(f"%DLQ%{group}", number, moment, pairs, failures))
    root = writer.close()
    (root / "config").mkdir()
    # as fastjson writes it: integer keys without quotes
    table = '{"offsetTable":{"orders@billing":{0:500,1:516},"orders@quick":{0:516,1:516}}}'
    (root / "config" / "consumerOffset.json").write_text(table)
    return root


def message(
    topic: str, number: int, moment: datetime, pairs: dict[str, str], failures: int = 0
) -> Stored:
    """One message of the store."""
    return Stored(
        topic=topic,
        queue_id=0 if topic.startswith("%") else number % 2,
        body=f"order {number}".encode(),
        properties=properties(pairs),
        store_timestamp=int(moment.timestamp() * 1000),
        reconsume_times=failures,
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterThread]:
    """Where messages are replayed to."""
    with ClusterThread() as cluster:
        cluster.create_topic("orders-again", queues=1)
        yield cluster


def test_recipes_run(
    spark: SparkSession,
    store: Path,
    cluster: ClusterThread,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every Python block, one after the other; what each section prints is what the store has."""
    names: dict[str, Any] = {"spark": spark, "STORE": str(store), "LAKE": str(tmp_path / "lake")}
    names["NAMESRV"] = cluster.namesrv_addr
    printed = {}
    for section in RECIPES.read_text().split("\n## ")[1:]:
        title = section.partition("\n")[0]
        for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
            exec(compile(block, f"recipe {title}", "exec"), names)  # noqa: S102
        printed[title.split(",")[0]] = capsys.readouterr().out
    (busiest,) = re.findall(r".*█{40}", printed["Traffic per topic and hour"])
    assert re.search(r"07-01 10h +60 ", busiest)
    late = rows_of(printed["The slowest consumers"])
    assert late == [["billing", "orders", "16", "2025-12-19 21:00:00"]]
    dead = [row[:5] for row in rows_of(printed["Dead letters by reason"])]
    assert dead == [
        ["mailing", "orders", "given up at once", "a", "6"],
        ["billing", "orders", "failed 16 times", "a", "5"],
    ]
    searched = printed["A message by its key"]
    plan = next(line for line in searched.splitlines() if "PartitionFilters" in line)
    assert "topic" in plan and "date" in plan and "body" not in plan.partition("ReadSchema")[2]
    assert [row[-1] for row in rows_of(searched)] == ["order 777"]
    again = [
        row["body"] for row in read_log(cluster.store_path()) if row["topic"] == "orders-again"
    ]
    assert sorted(again) == [b"order %d" % number for number in range(483, 483 + BUSY_COUNT)]


def rows_of(printed: str) -> list[list[str]]:
    """The rows of a table that `show` has printed."""
    table = [line for line in printed.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1:]]
