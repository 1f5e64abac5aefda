"""Host addresses of records as `ip:port` strings; each distinct address is formatted once."""

from __future__ import annotations

import ipaddress
import sys
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from aerobee.spark import acceleration
from aerobee.spark.cells import one_code
from aerobee.spark.layout import FIELD_AT, Records

_WORD = np.dtype(np.int64)


def host_column(records: Records, name: str) -> pa.StringArray:
    """`born_host` or `store_host` of every record: `10.0.0.7:40312` or `[2001:db8::7]:40312`."""
    if records.all_ipv4:
        return _written(records, int(FIELD_AT[name][0]))
    parts = [_coded(shape.headers[name]).dictionary_decode() for shape in records.shapes]
    if len(parts) == 1:
        return parts[0]
    order = np.concatenate([shape.rows for shape in records.shapes])
    return pa.concat_arrays(parts).take(pa.array(np.argsort(order)))


def host_codes(records: Records, name: str) -> pa.DictionaryArray:
    """The same as a dictionary of those that there are."""
    if records.all_ipv4:
        return _coded(records.field(name, np.int64).astype(">i8").view("V8"))
    return host_column(records, name).dictionary_encode()


@lru_cache(maxsize=4096)
def host_text(packed: bytes) -> str:
    """The text of one packed address: 4 or 16 bytes of IP, then the port as an i32."""
    address = ipaddress.ip_address(packed[:-4])
    port = int.from_bytes(packed[-4:], "big", signed=True)
    return f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"


def _coded(cells: np.ndarray[Any, Any]) -> pa.DictionaryArray:
    packed = np.ascontiguousarray(cells)
    if packed.dtype.itemsize == _WORD.itemsize:  # IPv4: whole words, which compare at once
        words = packed.view(_WORD)
        if len(words) and (words == words[0]).all():  # the usual case of the store host
            return one_code(host_text(packed[0].tobytes()), len(words))
        column = pa.array(words)
    else:
        kind = pa.binary(packed.dtype.itemsize)
        column = pa.Array.from_buffers(kind, len(packed), [None, pa.py_buffer(packed)])
    encoded = column.dictionary_encode()
    distinct = [_bytes(value) for value in encoded.dictionary.to_pylist()]
    texts = pa.array([host_text(value) for value in distinct], pa.string())
    return pa.DictionaryArray.from_arrays(encoded.indices, texts)


def _written(records: Records, at: int) -> pa.StringArray:
    """The texts of IPv4 hosts that all stand at one place of the header, by compiled code."""
    loops, count = acceleration.loops, len(records)
    assert loops is not None
    offsets = np.empty(count + 1, np.int32)
    room = np.empty(count * loops.HOST_TEXT_BYTES_MAX, np.uint8)
    size = loops.host_texts(records.data, records.starts, at, offsets, room)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(room).slice(0, size)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.to_bytes(_WORD.itemsize, sys.byteorder, signed=True)
