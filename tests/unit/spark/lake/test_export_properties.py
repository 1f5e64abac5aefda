"""Properties of an export: a map, or the bytes that the log has; a lake keeps to one of the two."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner
from support.disks.stores import Stored
from support.lake.exports import Inline, go_on, grown, message, stored, visible

from aerobee.cli.export import export as command
from aerobee.spark import export
from aerobee.spark.errors import ExportRefused, OptionError
from aerobee.spark.lake.manifest import Manifest

ODD = (
    b"",
    b"KEYS\x01k1\x02TAGS\x01a",
    b"a\x01\xff\x02a\x01again\x02",
    b"no name or value",
    b"\x02",
)


def odd(number: int) -> Stored:
    """A message whose properties are such that a map does not tell how they stand in the log."""
    return Stored(properties=ODD[number % len(ODD)], body=b"%d" % number)


def table(lake: Path) -> pa.Table:
    """All rows of a lake of Parquet files, by their bodies."""
    found = ds.dataset(lake, format="parquet", partitioning="hive").to_table()
    order = sorted(range(len(found)), key=lambda row: int(found["body"][row].as_py()))
    return found.take(order)


@pytest.mark.usefixtures("inline")
def test_binary_properties_are_the_bytes_of_the_log(tmp_path: Path) -> None:
    """Also those of which a map has nothing, or less; tags and keys are told all the same."""
    store, lake = grown(tmp_path / "store", 30, odd), tmp_path / "lake"
    go_on(store, lake, properties="binary")
    found = table(lake)
    assert found.schema.field("properties").type == pa.binary()
    assert found["properties"].to_pylist() == [odd(number).properties for number in range(30)]
    assert found["tags"].to_pylist() == [None, "a", None, None, None] * 6
    assert found["keys"].to_pylist() == [None, "k1", None, None, None] * 6


@pytest.mark.parametrize("decompress", [False, True])
@pytest.mark.usefixtures("inline")
def test_all_other_columns_are_as_with_a_map(tmp_path: Path, decompress: bool) -> None:
    """Bodies unpacked or not; through the command as well."""
    packed = zlib.compress(b"packed")
    store = grown(
        tmp_path / "store", 30, lambda number: replace(message(number), body=packed, sys_flag=1)
    )
    go_on(store, tmp_path / "map", decompress=decompress)
    words = ["--store", str(store), "--to", str(tmp_path / "binary"), "--properties", "binary"]
    done = CliRunner().invoke(command, [*words, *(["--decompress"] if decompress else [])])
    assert done.exit_code == 0, done.output
    ours, theirs = (
        ds.dataset(tmp_path / name, format="parquet", partitioning="hive").to_table()
        for name in ("binary", "map")
    )
    others = [name for name in theirs.schema.names if name != "properties"]
    key = [("commit_log_offset", "ascending")]
    assert set(theirs["body"].to_pylist()) == {b"packed" if decompress else packed}
    assert ours.select(others).sort_by(key) == theirs.select(others).sort_by(key)


@pytest.mark.parametrize(("first", "then"), [("map", "binary"), ("binary", "map")])
@pytest.mark.usefixtures("inline")
def test_lake_keeps_to_what_it_began_with(tmp_path: Path, first: str, then: str) -> None:
    """Files of both kinds could not be read together; who replaces them may choose anew."""
    store, lake = grown(tmp_path / "store", 20), tmp_path / "lake"
    go_on(store, lake, properties=first)
    grown(store, 30)
    with pytest.raises(ExportRefused, match=f"holds an export with properties as {first}"):
        go_on(store, lake, properties=then)
    assert go_on(store, lake, properties=first).messages == 10
    assert visible(lake) == stored(store)
    assert export(store, lake, properties=then, overwrite=True).messages == 30
    assert visible(lake) == stored(store)


def test_other_kind_that_was_first_meanwhile_is_not_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two first runs to one folder, which plan without knowing of each other, one gives way."""
    store, lake = grown(tmp_path / "store", 20), tmp_path / "lake"
    inline = Inline().use(monkeypatch)
    inline.before = lambda: go_on(store, lake, topics=["orders"])
    with pytest.raises(ExportRefused, match="with properties as map"):
        go_on(store, lake, topic_pattern="%RETRY%.*", properties="binary")
    assert {place[1] for place in visible(lake)} == {"orders"}


@pytest.mark.usefixtures("inline")
def test_delta_table_has_the_type_for_good(tmp_path: Path) -> None:
    """Its log says so to all readers, of earlier versions too."""
    deltalake = pytest.importorskip("deltalake")
    store, lake = grown(tmp_path / "store", 20), tmp_path / "lake"
    go_on(store, lake, format="delta", properties="binary")
    grown(store, 30)
    for more in ({"incremental": True}, {"incremental": False, "overwrite": True}):
        with pytest.raises(ExportRefused, match="a Delta table with properties as binary"):
            go_on(store, lake, format="delta", **more)
    go_on(store, lake, format="delta", properties="binary")
    schema = deltalake.DeltaTable(str(lake)).schema()
    kinds = {field.name: field.type for field in schema.fields}
    assert kinds["properties"] == kinds["body"]
    assert visible(lake) == stored(store)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"properties": "text"}, "'text' is not one of map, binary"),
        ({"format": "json", "properties": "binary"}, "format json has properties as an object"),
    ],
)
@pytest.mark.usefixtures("inline")
def test_what_cannot_be_is_refused(tmp_path: Path, more: dict[str, Any], text: str) -> None:
    """Before anything is read; by the command with code 2."""
    store = grown(tmp_path / "store", 2, message)
    with pytest.raises(OptionError, match=text):
        go_on(store, tmp_path / "lake", **more)
    words = [word for name, value in more.items() for word in (f"--{name}", value)]
    done = CliRunner().invoke(command, ["--store", str(store), "--to", str(tmp_path / "l"), *words])
    assert done.exit_code == 2
    assert list(tmp_path.iterdir()) == [store]


@pytest.mark.usefixtures("inline")
def test_early_manifests_say_nothing_of_properties(tmp_path: Path) -> None:
    """They are of maps; a word that is neither is damage."""
    store, lake = grown(tmp_path / "store", 20), tmp_path / "lake"
    go_on(store, lake)
    (path,) = (lake / "_aerobee").glob("manifest-*.json")
    values = json.loads(path.read_text())
    assert values.pop("properties") == "map" and values.pop("crc32")
    path.write_text(json.dumps(values))
    grown(store, 30)
    assert go_on(store, lake).messages == 10
    text = json.dumps(values | {"properties": "text"}).encode()
    with pytest.raises(ExportRefused, match=r"it is damaged .*properties are 'text'"):
        Manifest.decode(text, "it")
