"""Several stores in one path, told apart by labels."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.disks.stores import Stored, StoreWriter

from aerobee.spark.at_rest.stores import Paths, find_stores, is_pattern
from aerobee.spark.errors import OptionError, StoreUnreadable


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two brokers' data, each with a folder `store`, and something else beside them."""
    for name in ("broker-a", "broker-b"):
        writer = StoreWriter(tmp_path / name / "store", 4096)
        writer.append(Stored())
        writer.close()
    (tmp_path / "broker-c" / "store").mkdir(parents=True)
    return tmp_path


def labels(path: Paths) -> dict[str, str]:
    """Label to log folder."""
    return {store.label: store.log_dir for store in find_stores(path)}


def test_label_is_the_folders_name_or_what_is_given(root: Path) -> None:
    """Of the store, of its log folder, of a list."""
    log_a = str(root / "broker-a/store/commitlog")
    log_b = str(root / "broker-b/store/commitlog")
    assert labels(f"{root}/broker-a/store") == {"store": log_a}
    assert labels(f"{root}/broker-a/store/commitlog/") == {"store": log_a}
    assert labels(f"a=file://{root}/broker-a/store, b={root}/broker-b/store") == {
        "a": log_a,
        "b": log_b,
    }


def test_pattern_finds_stores_and_names_them_by_its_wildcard(root: Path) -> None:
    """What is no store is passed over."""
    assert list(labels(f"{root}/broker-*/store")) == ["broker-a", "broker-b"]
    assert list(labels(f"{root}/broker-[b-z]/store,x={root}/broker-a/store")) == ["broker-b", "x"]


def test_folder_with_comma_and_equals_sign_is_one_store(tmp_path: Path) -> None:
    """What exists as it is written wins."""
    writer = StoreWriter(tmp_path / "a=b,c*", 4096)
    writer.append(Stored())
    assert list(labels(str(writer.close()))) == ["a=b,c*"]


def test_sequence_of_paths_is_taken_as_it_is(tmp_path: Path) -> None:
    """A comma belongs to a path, one with a name before it too."""
    for name in ("a,b", "c"):
        writer = StoreWriter(tmp_path / name, 4096)
        writer.append(Stored())
        writer.close()
    logs = {name: str(tmp_path / name / "commitlog") for name in ("a,b", "c")}
    assert labels([f"x={tmp_path}/a,b", f"{tmp_path}/c"]) == {"x": logs["a,b"], "c": logs["c"]}
    assert labels((f"{tmp_path}/a,b",)) == {"a,b": logs["a,b"]}
    assert labels([f"{tmp_path}/*"]) == logs
    with pytest.raises(OptionError, match="option path is missing"):
        find_stores([])


@pytest.mark.parametrize("scheme", ["file:", "file://"])
def test_scheme_of_local_paths_may_stand_before_them(root: Path, scheme: str) -> None:
    """As Spark's users write it, of single stores, patterns, and behind a name."""
    assert list(labels(f"{scheme}{root}/broker-*/store")) == ["broker-a", "broker-b"]
    assert list(labels(f"{scheme}{root}/broker-a/store")) == ["store"]
    assert list(labels([f"x={scheme}{root}/broker-a/store"])) == ["x"]
    assert is_pattern(f"{scheme}{root}/broker-*/store")


def test_wrong_paths_are_refused(root: Path) -> None:
    """One name for two, one store twice, a pattern that finds nothing, nothing at all."""
    a, b = f"{root}/broker-a/store", f"{root}/broker-b/store"
    with pytest.raises(OptionError, match=r"would both be called 'store'.*write name=path"):
        find_stores(f"{a},{b}")
    with pytest.raises(OptionError, match="stands there twice"):
        find_stores(f"{a},{a}")
    with pytest.raises(OptionError, match="cannot have one name"):
        find_stores(f"x={root}/*/store")
    with pytest.raises(StoreUnreadable, match="no RocketMQ store is found by"):
        find_stores(f"{root}/*/stare")
    with pytest.raises(StoreUnreadable, match="there is no folder"):
        find_stores(f"{root}/broker-x")
    with pytest.raises(OptionError, match="option path is missing"):
        find_stores(" , ")
