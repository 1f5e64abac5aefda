"""kill -9 of an export, its driver or a worker of it, at any moment: every message once."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from support.exporting_child import ExportingChild
from support.exports import Inline, go_on, grown, staged, stored, visible

ROUNDS = int(os.environ.get("KILL_ROUNDS", "3"))
GROWTH = 1500


@pytest.fixture
def dice() -> random.Random:
    """Chance, told in the output so that a failure can be had again."""
    seed = int(os.environ.get("KILL_SEED", str(time.time_ns() % 1_000_000)))
    print(f"KILL_SEED={seed}")
    return random.Random(seed)


@contextmanager
def child(store: Path, lake: Path, *more: str) -> Iterator[ExportingChild]:
    """An exporting process that ends with the block, if not before."""
    process = ExportingChild(store, lake, *more)
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.kill()


def check(store: Path, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is there twice; one more run, and everything is there."""
    found = visible(lake)
    assert len(found) == len(set(found)), "a reader saw a message twice"
    with monkeypatch.context() as patched:
        Inline().use(patched)
        go_on(store, lake)
    assert visible(lake) == stored(store)
    assert len(staged(lake)) <= 1, "only what was killed before it could say whose it is"


@pytest.mark.spark
def test_every_message_is_exported_once_whoever_dies(
    tmp_path: Path, dice: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task's first worker, then some worker, then the driver; then all over again."""
    store, lake = tmp_path / "store", tmp_path / "lake"
    count = 0
    for _ in range(ROUNDS):
        with child(store, lake) as process:
            process.ready()
            grown(store, count := count + GROWTH)
            process.tell("dying")
            assert process.done() > 0
            assert visible(lake) == stored(store)
            grown(store, count := count + GROWTH)
            began = time.monotonic()
            process.tell("export")
            time.sleep(dice.random() * 0.3)
            for worker in dice.sample(workers := process.workers(), min(1, len(workers))):
                try:
                    worker.kill()
                except psutil.NoSuchProcess:
                    continue
            assert process.done() == GROWTH
            took_s = time.monotonic() - began
            grown(store, count := count + GROWTH)
            process.tell("export")
            time.sleep(dice.random() * took_s)
            process.kill()
        check(store, lake, monkeypatch)


def test_every_message_is_exported_once_by_rivals_of_which_one_dies(
    tmp_path: Path, dice: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes export the same messages at once; one of them is killed at any moment."""
    store, lake = tmp_path / "store", tmp_path / "lake"
    count = 0
    for _ in range(ROUNDS):
        with child(store, lake, "--inline") as one, child(store, lake, "--inline") as other:
            one.ready()
            other.ready()
            grown(store, count := count + GROWTH)
            began = time.monotonic()
            one.tell("export")
            other.tell("export")
            assert one.done() + other.done() == GROWTH
            took_s = time.monotonic() - began
            assert visible(lake) == stored(store)
            grown(store, count := count + GROWTH)
            one.tell("export")
            other.tell("export")
            time.sleep(dice.random() * took_s)
            one.kill()
            assert other.done() in (0, GROWTH)
            assert visible(lake) == stored(store)
        check(store, lake, monkeypatch)
