"""Where the fields of a CommitLog record stand in a block of the log, as numpy reads them.

A record is a header of fixed fields whose length depends on the two host addresses (IPv4 or
IPv6), then body, topic and properties, each behind its length. Layout: MessageDecoder, CommitLog
(calMsgLength) of RocketMQ 5.5.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from aerobee.remoting.message.layout import (
    BORN_HOST_V6_BIT,
    HOST_BITS,
    RECORD_FIELDS,
    RECORD_SHAPES,
)

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

COMPRESSED = 1  # a bit of the sys flag
HEADER_BYTES_MAX = RECORD_SHAPES[HOST_BITS].size
HOST_BITS_SHIFT = BORN_HOST_V6_BIT.bit_length() - 1
SYS_FLAG_LAST_AT = RECORD_FIELDS.behind("sys_flag") - 1
SLACK_BYTES = 128  # what a buffer must hold behind its last record, so that gathers may overshoot

# a record's kind is (sysFlag & 48) >> 4: bit 0 is the born host's IPv6 flag, bit 1 the store host's
_HEADERS = tuple(np.dtype(RECORD_SHAPES[bits].columns()) for bits in sorted(RECORD_SHAPES))
HEADER_BYTES = np.array([header.itemsize for header in _HEADERS], np.int64)
# where each field stands, and how long it is, one number by kind of header
FIELD_AT = {
    name: np.array([header.fields[name][1] for header in _HEADERS if header.fields], np.int64)
    for name in _HEADERS[0].names or ()
}
FIELD_BYTES = {
    name: np.array([header[name].itemsize for header in _HEADERS], np.int64) for name in FIELD_AT
}


def unaligned(data: Bytes, dtype: str) -> npt.NDArray[Any]:
    """A view whose element i is the value that starts at byte i."""
    size = np.dtype(dtype).itemsize
    return np.ndarray((len(data) - size + 1,), dtype, data, strides=(1,))
