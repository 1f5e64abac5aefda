"""One walk over records with an expression, ended when it has taken long enough."""

import struct
import time
from collections.abc import Callable
from typing import Final

from aerobee.broker.features.sql92.expression import Expression
from aerobee.remoting.message.layout import (
    BODY_BYTES_AT,
    BODY_LENGTH_BYTES,
    HOST_BITS,
    MAGIC_LAST_AT,
    MAGIC_V1,
    RECORD_FIELDS,
)

SCAN_NS_MAX: Final = 3_000_000
"""Of one walk, in nanoseconds of CPU: some hundred messages with an ordinary expression."""

_SYS_FLAG_AT: Final = RECORD_FIELDS.at("sys_flag")
_MAGIC_V1_LAST: Final = MAGIC_V1 & 0xFF
_unpack_int32: Final = struct.Struct(">i").unpack_from


def scan(
    expression: Expression,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
    cpu_ns: Callable[[], int] = time.thread_time_ns,
) -> Callable[[memoryview], bool | None]:
    """Return a function that says of a record whether it is wanted, None when time is up.

    The first record is always asked about, so that a walk gets on. What counts is the CPU time of
    the walk: while the machine does something else, nobody who waits here would be served either.
    The clock, which costs a tenth of that to ask, says when to look.
    """
    accepts = expression.accepts
    began_ns = until_ns = 0

    def accept(record: memoryview) -> bool | None:
        nonlocal began_ns, until_ns
        now_ns = clock_ns()
        if not until_ns:
            began_ns, until_ns = cpu_ns(), now_ns + SCAN_NS_MAX
        elif now_ns > until_ns:
            left_ns = began_ns + SCAN_NS_MAX - cpu_ns()
            if left_ns <= 0:
                return None
            until_ns = now_ns + left_ns
        return accepts(properties_of(record))

    return accept


def properties_of(record: memoryview) -> bytes:
    """Return the property bytes of one whole record, without decoding the rest."""
    (sys_flag,) = _unpack_int32(record, _SYS_FLAG_AT)
    length_at = BODY_BYTES_AT[sys_flag & HOST_BITS]
    (body_bytes,) = _unpack_int32(record, length_at)
    topic_at = length_at + BODY_LENGTH_BYTES + body_bytes + 1
    topic_bytes = record[topic_at - 1]
    if record[MAGIC_LAST_AT] != _MAGIC_V1_LAST:
        topic_bytes = topic_bytes << 8 | record[topic_at]
        topic_at += 1
    return bytes(record[topic_at + topic_bytes + 2 :])
