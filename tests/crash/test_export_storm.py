"""Many exports to one lake, three at a time, a third of them killed: no row twice, none missing.

The long form is part of `make soak`: KILL_ROUNDS=50 are 1,200 processes.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.lake.export_drivers import Driver, Drivers
from support.lake.exports import Inline, Place, go_on, grown, message, stored, visible

from aerobee.spark import exported_files

ROUNDS = int(os.environ.get("KILL_ROUNDS", "1"))
WAVES = 4  # of a round
AT_ONCE = 3
GROWTH = 30  # messages from wave to wave, half of each of two topics
KILLED = 1 / 3
TOLD_FROM = 10  # rounds, from which on progress is told
OVERTAKEN = "other runs were first"  # the one error that a run may end with
PLACE = ["broker", "topic", "queue_id", "queue_offset"]


@dataclass
class Storm:
    """One store that grows, one lake, and the exports from the one to the other."""

    store: Path
    lake: Path
    format: str
    dice: random.Random
    count: int = 0
    started: int = 0
    killed: int = 0
    took_s: float = 0.3

    def wanted(self) -> dict[str, Any]:
        """What one of the exports is asked for."""
        topics = self.dice.choice([None, None, ["orders"], ["%RETRY%billing"]])
        wanted: dict[str, Any] = {"format": self.format, "topics": topics}
        if self.dice.random() < 0.3:
            wanted["until"] = message(self.dice.randrange(self.count)).store_timestamp
        wanted["overwrite" if self.dice.random() < 0.1 else "incremental"] = True
        return wanted

    def wave(self, drivers: Drivers) -> None:
        """Three exports at once, of which some are killed at a random moment."""
        self.count += GROWTH
        grown(self.store, self.count)
        began = time.monotonic()
        running: list[Driver] = []
        for _ in range(AT_ONCE):
            running.append(drivers.start(json.dumps(self.wanted())))
            time.sleep(self.dice.random() * self.took_s / 3)
        self.started += AT_ONCE
        for driver in running:
            if self.dice.random() < KILLED:
                time.sleep(self.dice.random() * self.took_s / 2)
                driver.kill()
                self.killed += 1
        said = [driver.said() for driver in running]
        assert all(not each or each.isdecimal() or OVERTAKEN in each for each in said), said
        self.took_s = min(1.0, 0.5 * (self.took_s + time.monotonic() - began))

    def judge(self) -> None:
        """No row stands twice; after one more run all are there, whoever reads."""
        found = self.rows()
        assert len(found) == len(set(found)), "a reader saw a message twice"
        go_on(self.store, self.lake, format=self.format)
        truth = stored(self.store)
        assert self.rows() == truth
        if self.format == "parquet":
            files = exported_files(self.lake)
            tables = [pq.read_table(self.lake / file.path, partitioning=None) for file in files]
            named = [
                (row["broker"], file.topic, row["queue_id"], row["queue_offset"])
                for file, table in zip(files, tables, strict=True)
                for row in table.select(["broker", "queue_id", "queue_offset"]).to_pylist()
            ]
            assert sorted(named) == truth, "what the manifest names is all, and no more"

    def rows(self) -> list[Place]:
        """What the format's own readers see."""
        if self.format == "parquet":
            return visible(self.lake)
        from deltalake import DeltaTable

        if not (self.lake / "_delta_log").exists():
            return []
        table = DeltaTable(str(self.lake)).to_pyarrow_table(columns=PLACE)
        return sorted(zip(*table.select(PLACE).to_pydict().values(), strict=True))


@contextmanager
def storm_of(folder: Path, format: str, dice: random.Random) -> Iterator[tuple[Storm, Drivers]]:
    """The storm and whoever starts its processes."""
    storm = Storm(folder / "store", folder / "lake", format, dice)
    with Drivers(storm.store, storm.lake, "--inline") as drivers:
        yield storm, drivers


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_many_exports_of_which_many_die_export_each_message_once(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of random topics, up to random times, and such that replace all that was there."""
    if format == "delta":
        pytest.importorskip("deltalake")
    seed = int(os.environ.get("KILL_SEED", str(time.time_ns() % 1_000_000)))
    print(f"KILL_SEED={seed}")
    Inline().use(monkeypatch)
    with storm_of(tmp_path, format, random.Random(seed)) as (storm, drivers):
        for number in range(1, ROUNDS + 1):
            for _ in range(WAVES):
                storm.wave(drivers)
            storm.judge()
            if ROUNDS >= TOLD_FROM:
                with capfd.disabled():
                    print(
                        f"\n{format}, seed {seed}: round {number} of {ROUNDS}, {storm.started}"
                        f" exports, {storm.killed} killed, {storm.count} messages, each once",
                        end="",
                    )
