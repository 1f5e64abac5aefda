"""Host addresses of records as `ip:port` strings; each distinct address is formatted once."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from aerobee.spark.records.cells import gathered, one_code
from aerobee.spark.records.layout import FIELD_AT, FIELD_BYTES, Ints

if TYPE_CHECKING:
    from aerobee.spark.records.headers import Records

IPV4_BYTES = 8  # of an address and its port


def coded_hosts(records: Records, name: str) -> pa.DictionaryArray:
    """`born_host` or `store_host` of every record, as a dictionary of those that there are."""
    if not records.kinds.any():
        return _coded_words(records.field(name, np.int64))
    at = records.starts + FIELD_AT[name][records.kinds]
    encoded = gathered(records.data, at, FIELD_BYTES[name][records.kinds]).dictionary_encode()
    texts = [host_text(packed) for packed in encoded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, pa.string()))


@lru_cache(maxsize=4096)
def host_text(packed: bytes) -> str:
    """The text of one packed address: 4 or 16 bytes of IP, then the port as an i32."""
    address = ipaddress.ip_address(packed[:-4])
    port = int.from_bytes(packed[-4:], "big", signed=True)
    return f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"


def _coded_words(words: Ints) -> pa.DictionaryArray:
    """IPv4 hosts, each as the number that its 8 bytes are: numbers compare at once."""
    if len(words) and (words == words[0]).all():  # the usual case of the store host
        return one_code(_word_text(int(words[0])), len(words))
    encoded = pa.array(words).dictionary_encode()
    texts = [_word_text(word) for word in encoded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, pa.string()))


def _word_text(word: int) -> str:
    return host_text(word.to_bytes(IPV4_BYTES, "big", signed=True))
