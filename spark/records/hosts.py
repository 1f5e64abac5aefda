"""Host addresses of records as `ip:port` strings; each distinct address is formatted once."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from aerobee.spark.records import acceleration
from aerobee.spark.records.cells import one_code
from aerobee.spark.records.headers import FIELD_AT, Ints, Records

IPV4_BYTES = 8  # of an address and its port


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
        return _coded_words(records.field(name, np.int64))
    return host_column(records, name).dictionary_encode()


@lru_cache(maxsize=4096)
def host_text(packed: bytes) -> str:
    """The text of one packed address: 4 or 16 bytes of IP, then the port as an i32."""
    address = ipaddress.ip_address(packed[:-4])
    port = int.from_bytes(packed[-4:], "big", signed=True)
    return f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"


def _coded(cells: np.ndarray[Any, Any]) -> pa.DictionaryArray:
    packed = np.ascontiguousarray(cells)
    size = packed.dtype.itemsize
    if size == IPV4_BYTES:
        return _coded_words(packed.view(">i8").astype(np.int64))
    column = pa.Array.from_buffers(pa.binary(size), len(packed), [None, pa.py_buffer(packed)])
    encoded = column.dictionary_encode()
    texts = [host_text(value) for value in encoded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, pa.string()))


def _coded_words(words: Ints) -> pa.DictionaryArray:
    """IPv4 hosts, each as the number that its 8 bytes are: numbers compare at once."""
    if len(words) and (words == words[0]).all():  # the usual case of the store host
        return one_code(_word_text(int(words[0])), len(words))
    encoded = pa.array(words).dictionary_encode()
    texts = [_word_text(word) for word in encoded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, pa.string()))


def _written(records: Records, at: int) -> pa.StringArray:
    """The texts of IPv4 hosts that all stand at one place of the header, by compiled code."""
    loops, count = acceleration.loops, len(records)
    assert loops is not None
    offsets = np.empty(count + 1, np.int32)
    room = np.empty(count * loops.HOST_TEXT_BYTES_MAX, np.uint8)
    size = loops.host_texts(records.data, records.starts, at, offsets, room)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(room).slice(0, size)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def _word_text(word: int) -> str:
    return host_text(word.to_bytes(IPV4_BYTES, "big", signed=True))
