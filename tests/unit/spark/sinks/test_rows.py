"""What becomes of a row's columns, and what is refused before anything is sent."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from aerobee.client.errors import InvalidMessage
from aerobee.client.message import Message
from aerobee.spark.sinks.rows import rows_of

PAIRS = pa.map_(pa.string(), pa.string())
READ = {"TAGS": "old", "KEYS": "k1 k2", "region": "north", "empty": "", "nothing": None}


def message(**columns: Any) -> Message:
    """That of one row; `properties` are pairs, `delay_level` an int of 32 bits."""
    types = {"properties": PAIRS, "delay_level": pa.int32(), "tags": pa.string()}
    arrays = {name: pa.array([cell], types.get(name)) for name, cell in columns.items()}
    (row,) = rows_of(pa.RecordBatch.from_pydict({"body": [b"x"], **arrays}), "orders")
    return row.message


def test_properties_tell_keys_and_tags_where_there_are_no_columns() -> None:
    """So that rows which were read can be written."""
    found = message(properties=READ)
    assert (found.tags, found.keys) == ("old", "k1 k2")
    assert found.properties == {"region": "north"}


@pytest.mark.parametrize("nothing", [None, ""])
def test_columns_of_keys_and_tags_win_when_they_are_null(nothing: str | None) -> None:
    """A query that takes the tags away does so."""
    found = message(tags=nothing, keys=pa.scalar(nothing, pa.string()), properties=READ)
    assert not found.tags
    assert not found.keys
    assert message(tags=nothing, properties=READ).keys == "k1 k2"
    assert message(tags="new", properties=READ).tags == "new"


@pytest.mark.parametrize("level", [-3, 19, 2**31 - 1])
def test_levels_that_there_are_not_are_refused(level: int) -> None:
    """By name and value."""
    with pytest.raises(InvalidMessage, match=f"column delay_level: {level} is no level: 1 to 18"):
        message(delay_level=level)


@pytest.mark.parametrize(("level", "kept"), [(None, 0), (0, 0), (1, 1), (18, 18)])
def test_levels(level: int | None, kept: int) -> None:
    """None and 0 are at once."""
    assert message(delay_level=level).delay_level == kept
