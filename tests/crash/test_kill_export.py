"""kill -9 of an export, its driver or a worker of it, at any moment: every message once."""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from support.lake.export_drivers import Driver, Drivers
from support.lake.exports import Inline, go_on, grown, staged, stored, visible

ROUNDS = int(os.environ.get("KILL_ROUNDS", "2"))
GROWTH = 300


@pytest.fixture
def dice() -> random.Random:
    """Chance, told in the output so that a failure can be had again."""
    seed = int(os.environ.get("KILL_SEED", str(time.time_ns() % 1_000_000)))
    print(f"KILL_SEED={seed}")
    return random.Random(seed)


@dataclass
class Growing:
    """A store that gets longer, and the lake that it is exported to."""

    store: Path
    lake: Path
    count: int = 0

    def grow(self) -> None:
        """Some messages more."""
        self.count += GROWTH
        grown(self.store, self.count)

    def check_complete(self) -> None:
        """Readers see every message once."""
        assert visible(self.lake) == stored(self.store)

    def check_goes_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing is there twice; one more run, and everything is there."""
        found = visible(self.lake)
        assert len(found) == len(set(found)), "a reader saw a message twice"
        with monkeypatch.context() as patched:
            Inline().use(patched)
            go_on(self.store, self.lake)
        self.check_complete()
        assert len(staged(self.lake)) <= 1, "only what was killed before it could say whose it is"


@pytest.fixture
def growing(tmp_path: Path) -> Growing:
    """An empty store and no lake."""
    return Growing(tmp_path / "store", tmp_path / "lake")


@pytest.mark.spark
def test_every_message_is_exported_once_whoever_dies(
    growing: Growing, dice: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task's first worker, then some worker, then the driver; then all over again."""
    with Drivers(growing.store, growing.lake) as drivers:
        for _ in range(ROUNDS):
            growing.grow()
            assert drivers.start("dying").done() == GROWTH
            growing.check_complete()
            growing.grow()
            began = time.monotonic()
            driver = drivers.start()
            time.sleep(dice.random() * 0.3)
            for worker in dice.sample(workers := drivers.workers(), min(1, len(workers))):
                try:
                    worker.kill()
                except psutil.NoSuchProcess:
                    continue
            assert driver.done() == GROWTH
            growing.grow()
            kill_within(drivers.start(), dice.random() * (time.monotonic() - began))
            growing.check_goes_on(monkeypatch)


def test_every_message_is_exported_once_by_rivals_of_which_one_dies(
    growing: Growing, dice: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes export the same messages at once; one of them is killed at any moment."""
    with Drivers(growing.store, growing.lake, "--inline") as drivers:
        for _ in range(ROUNDS):
            growing.grow()
            began = time.monotonic()
            one, other = drivers.start(), drivers.start()
            assert one.done() + other.done() == GROWTH
            took_s = time.monotonic() - began
            growing.check_complete()
            growing.grow()
            one, other = drivers.start(), drivers.start()
            kill_within(one, dice.random() * took_s)
            assert other.done() in (0, GROWTH)
            growing.check_complete()
            growing.check_goes_on(monkeypatch)


def kill_within(driver: Driver, seconds: float) -> None:
    """Kill a driver after some time, whatever it is doing then."""
    time.sleep(seconds)
    driver.kill()
