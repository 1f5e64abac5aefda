"""Host addresses of records as `ip:port` strings; each distinct address is formatted once."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from aerobee.spark.layout import Records


def host_column(records: Records, name: str) -> pa.StringArray:
    """`born_host` or `store_host` of every record: `10.0.0.7:40312` or `[2001:db8::7]:40312`."""
    parts = [_texts(shape.headers[name]) for shape in records.shapes]
    if len(parts) == 1:
        return parts[0]
    order = np.concatenate([shape.rows for shape in records.shapes])
    return pa.concat_arrays(parts).take(pa.array(np.argsort(order)))


@lru_cache(maxsize=4096)
def host_text(packed: bytes) -> str:
    """The text of one packed address: 4 or 16 bytes of IP, then the port as an i32."""
    address = ipaddress.ip_address(packed[:-4])
    port = int.from_bytes(packed[-4:], "big", signed=True)
    return f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"


def _texts(cells: np.ndarray[Any, Any]) -> pa.StringArray:
    packed = np.ascontiguousarray(cells)
    kind = pa.binary(packed.dtype.itemsize)
    column = pa.Array.from_buffers(kind, len(packed), [None, pa.py_buffer(packed)])
    encoded = column.dictionary_encode()
    texts = pa.array([host_text(value) for value in encoded.dictionary.to_pylist()], pa.string())
    if len(texts) == 1:  # the usual case of the store host
        return texts.take(pa.array(np.zeros(len(packed), np.int32)))
    return pa.DictionaryArray.from_arrays(encoded.indices, texts).dictionary_decode()
