"""Exports without Spark, stores that grow, and lakes read back row by row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from aerobee.spark import export
from aerobee.spark.exports import exporter
from aerobee.spark.exports.options import Stores
from aerobee.spark.exports.summary import ExportSummary
from aerobee.spark.exports.task import ExportTask, TaskResult, run_task
from aerobee.spark.lake.owner import Owner
from support.disks.stores import Stored, StoreWriter, properties, read_log

DAY_MS = 86_400_000
FIRST_MS = 1_760_000_000_000
Place = tuple[str, str, int, int]  # broker, topic, queue, offset


def message(number: int, topics: Sequence[str] = ("orders", "%RETRY%billing")) -> Stored:
    """The message of that number: of some topic and queue, a tenth of a day after the last."""
    pairs = {"UNIQ_KEY": f"{number:032X}", "KEYS": f"k{number}", "TAGS": "a"}
    return Stored(
        topic=topics[number % len(topics)],
        queue_id=number % 3,
        body=b"%d" % number if number % 5 else b"\xff%d" % number,
        properties=properties(pairs),
        store_timestamp=FIRST_MS + number * DAY_MS // 20,
    )


def grown(root: Path, count: int, make: Callable[[int], Stored] = message) -> Path:
    """A store with the first `count` messages; a larger one of the same folder goes on from it."""
    writer = StoreWriter(root, 1 << 15)
    for number in range(count):
        writer.append(make(number))
    return writer.close(spare_segments=1)


class Inline:
    """Stands for a Spark session: runs tasks one after the other; `before` may come between."""

    def __init__(self, cores: int = 2, before: Callable[[], object] | None = None) -> None:
        self.cores = cores
        self.before = before
        self.tasks = 0

    def run(
        self, tasks: Sequence[ExportTask], progress: Any, beat: Callable[[], None]
    ) -> list[TaskResult]:
        """The results, or the first error among them."""
        if self.before is not None:
            before, self.before = self.before, None
            before()
        self.tasks += len(tasks)
        results = [run_task(task) for task in tasks]
        beat()
        for result in results:
            if result.error is not None:
                raise result.error
        return results

    def use(self, monkeypatch: pytest.MonkeyPatch) -> Inline:
        """Let exports run here."""

        @contextmanager
        def runner(spark: Any) -> Iterator[Inline]:
            yield self

        monkeypatch.setattr(exporter, "runner", runner)
        return self


def go_on(store: Stores, lake: Path | str, **more: Any) -> ExportSummary:
    """One incremental run."""
    return export(store, lake, **{"incremental": True, **more})


def stored(store: Path, broker: str | None = None) -> list[Place]:
    """What a store has, by the struct loop."""
    name = broker or store.name
    return sorted(
        (name, row["topic"], row["queue_id"], row["queue_offset"]) for row in read_log(store)
    )


def visible(lake: Path) -> list[Place]:
    """What a plain reader of Parquet sees, each row as often as it is there."""
    import pyarrow.dataset as ds

    if not any(lake.glob("topic=*/*/*.parquet")):
        return []
    columns = ["broker", "topic", "queue_id", "queue_offset"]
    table = ds.dataset(lake, format="parquet", partitioning="hive").to_table(columns=columns)
    return sorted(zip(*table.to_pydict().values(), strict=True))


def bury(lake: Path) -> None:
    """Make whoever has staged something look like a process of this machine that is gone.

    One that ended before it could say who it is counts as gone a day later; not so here.
    """
    for folder in (lake / "_aerobee" / "staging").glob("[!.]*"):
        gone = replace(Owner.this_process(), started="0")
        (folder / "owner.json").write_text(json.dumps(asdict(gone)))


def staged(lake: Path) -> list[str]:
    """The folders that runs have left behind."""
    return sorted(path.name for path in (lake / "_aerobee" / "staging").iterdir())
