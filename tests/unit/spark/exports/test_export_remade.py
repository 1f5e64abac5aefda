"""Topics that are deleted and made again while they are exported: nothing twice, and it is told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.disks.stores import StoreWriter
from support.lake.exports import Inline, go_on, grown, message, stored, visible

from aerobee.spark.errors import DataLost


def bodies(lake: Path) -> list[bytes]:
    """What a lake has, each as often as it is there."""
    import pyarrow.dataset as ds

    table = ds.dataset(lake, format="parquet").to_table(columns=["body"])
    return sorted(table["body"].to_pylist())


def made_anew(store: Path, count: int) -> None:
    """Delete the topic orders, and make it again in the same log with so many messages."""
    writer = StoreWriter(store, 1 << 15)
    for number in range(60):
        writer.append(message(number))
    for key in [key for key in writer.entries if key[0] == "orders"]:
        del writer.entries[key]
    shutil.rmtree(store / "consumequeue" / "orders")
    for number in range(100, 100 + count):
        writer.append(message(number, ["orders"]))
    writer.close(spare_segments=1)


@pytest.mark.parametrize("count", [3, 20, 30, 60])
def test_topic_made_anew_under_a_run_is_told(tmp_path: Path, inline: Inline, count: int) -> None:
    """However far it has grown: what tasks read by its entries may be of either life."""
    store, lake = grown(tmp_path / "store", 30), tmp_path / "lake"
    go_on(store, lake)
    grown(store, 60)
    inline.before = lambda: made_anew(store, count)
    with pytest.raises(DataLost, match="other messages there now"):
        go_on(store, lake)
    assert len(visible(lake)) == 30
    summary = go_on(store, lake, fail_on_data_loss=False)
    assert {gap.missing.key.topic for gap in summary.gaps} == {"orders"}
    assert summary.messages == 15 + count
    assert len(set(bodies(lake))) == len(bodies(lake)) == 45 + count


def test_store_made_anew_under_a_run_is_told(tmp_path: Path, inline: Inline) -> None:
    """With messages of the same sizes, which stand at the same places of its log."""
    store, lake = grown(tmp_path / "store", 30), tmp_path / "lake"
    go_on(store, lake)
    grown(store, 60)

    def again() -> None:
        shutil.rmtree(store)
        grown(store, 60, lambda number: message(number + 100_000))

    inline.before = again
    with pytest.raises(DataLost, match="other messages there now"):
        go_on(store, lake)
    assert len(visible(lake)) == 30


def test_topic_made_anew_under_the_first_run_is_exported_as_it_is(
    tmp_path: Path, inline: Inline
) -> None:
    """Nobody has been told of its forerunner's messages, and none of them is there."""
    store, lake = grown(tmp_path / "store", 60), tmp_path / "lake"
    inline.before = lambda: made_anew(store, 40)
    assert go_on(store, lake).messages == 30 + 40
    assert len(set(bodies(lake))) == 70


def test_topic_deleted_under_a_run_costs_nothing_that_was_read(
    tmp_path: Path, inline: Inline
) -> None:
    """Its folder went when the tasks had its messages."""
    store, lake = grown(tmp_path / "store", 60), tmp_path / "lake"
    expected = stored(store)
    run = inline.run

    def then_deleted(*words: object) -> object:
        results = run(*words)  # type: ignore[arg-type]
        shutil.rmtree(store / "consumequeue" / "orders")
        return results

    inline.run = then_deleted  # type: ignore[method-assign, assignment]
    assert go_on(store, lake).messages == 60
    assert visible(lake) == expected
