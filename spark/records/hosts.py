"""Host addresses of records as `ip:port` strings; each distinct address is formatted once."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

import pyarrow as pa

from aerobee.spark.records.cells import one_code
from aerobee.spark.records.layout import Ints

IPV4_BYTES = 8  # of an address and its port


def coded_addresses(packed: pa.BinaryArray) -> pa.DictionaryArray:
    """The texts of packed addresses, as a dictionary of those that there are."""
    encoded = packed.dictionary_encode()
    texts = [host_text(each) for each in encoded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, pa.string()))


@lru_cache(maxsize=4096)
def host_text(packed: bytes) -> str:
    """The text of one packed address: 4 or 16 bytes of IP, then the port as an i32."""
    address = ipaddress.ip_address(packed[:-4])
    port = int.from_bytes(packed[-4:], "big", signed=True)
    return f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"


def coded_words(words: Ints) -> pa.DictionaryArray:
    """Those of IPv4 hosts, each as the number that its 8 bytes are: numbers compare at once."""
    if len(words) and (words == words[0]).all():  # the usual case of the store host
        return one_code(_word_text(int(words[0])), len(words))
    encoded = pa.array(words).dictionary_encode()
    texts = [_word_text(word) for word in encoded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(texts, pa.string()))


def _word_text(word: int) -> str:
    return host_text(word.to_bytes(IPV4_BYTES, "big", signed=True))
