"""Corners of property strings that random ones reach too rarely."""

from __future__ import annotations

import pyarrow as pa
import pytest
from support.disks.stores import parse_properties

from aerobee.spark.records.columns import arrow_types
from aerobee.spark.records.properties import LAGS_MAX, find_marked, take_apart

MANY = b"".join(b"name-%d\x01v\x02" % number for number in range(LAGS_MAX + 5))
CASES = [
    b"",
    b"\x02",
    b"\x01",
    b"TAGS\x01a",
    b"TAGS\x01a\x02TAGS\x01b\x02",
    b"long-name-1\x011\x02long-name-2\x012\x02long-name-1\x013\x02",
    b"a\x01x\x02b\x01y\x02a\x01z",
    b"KEYS\x01\x02KEYS\x01k\x02KEYS\x01",
    b"TAGS\x01x\x01y\x02",
    b"\x01TAGS\x01x\x02",
    b"no mark\x02TAGS\x01t\x02",
    b"\xff\x01a\x02\xfe\x01b\x02",
    b"tags\x01no\x02TAGs\x01no\x02",
    MANY,
    MANY + b"name-0\x01again",
]


@pytest.mark.parametrize("neighbours", [[], [b""], [b"A\x01b"], [b"A\x01b\x02"], [b"\x02x"]])
def test_every_corner_reads_as_rocketmqs_own_parser_does(neighbours: list[bytes]) -> None:
    """Alone, and between records that end with a separator, without one, or start with one."""
    for case in CASES:
        raw = [*neighbours, case, *neighbours]
        cells = pa.array(raw, pa.binary())
        truth = [parse_properties(each) for each in raw]
        maps = take_apart(cells).as_map(arrow_types()["map<string,string>"]).to_pylist()
        assert [dict(pairs) for pairs in maps] == truth
        assert [len(pairs) for pairs in maps] == [len(each) for each in truth]
        marked = find_marked(cells)
        for name in ("TAGS", "KEYS"):
            places = zip(*marked.of(name.encode()), strict=True)
            values = [
                None if size < 0 else marked.data[at : at + size].tobytes().decode()
                for at, size in places
            ]
            assert values == [each.get(name) for each in truth]
