"""Warm memory is held, given up as others need it, and gone at the end."""

import os

import pytest
from support.waiting import until

from benchmarks.reports import memory
from benchmarks.reports.memory import MIB, WarmMemory


async def test_memory_is_given_up_as_the_page_cache_grows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What others take of the page cache leaves the file, and some is given up ahead."""
    others = [0]
    sizes: list[int] = []
    ftruncate = os.ftruncate

    def shrink(fd: int, size: int) -> None:
        ftruncate(fd, size)
        sizes.append(size)

    def cached() -> int:
        return (sizes[-1] if sizes else 96 * MIB) + others[0]

    monkeypatch.setattr(memory, "cached_bytes", cached)
    monkeypatch.setattr(os, "ftruncate", shrink)
    with WarmMemory(96 * MIB).flowing():
        await until(lambda: sizes == [32 * MIB], what="64 MiB are given up ahead")
        others[0] = 16 * MIB
        await until(lambda: sizes[-1] == 16 * MIB, what="16 MiB more were needed")


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a size nothing is written."""
    monkeypatch.setattr(memory, "fill", lambda fd, size: pytest.fail("something was written"))
    with WarmMemory(0).flowing():
        pass


def test_the_fastest_server_has_enough_but_not_the_whole_machine() -> None:
    """By the time of a round, and at most a part of what there is."""
    assert memory.needed_bytes(0.5) == 600 * MIB
    total = memory.known_bytes("MemTotal")
    assert total > 0
    assert total * 0.24 < memory.needed_bytes(10_000) <= total * 0.25
