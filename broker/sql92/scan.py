"""One walk over records with an expression, ended when it has taken long enough."""

import time
from collections.abc import Callable
from typing import Final

from aerobee.broker.sql92.expression import Expression
from aerobee.remoting.record import HEAD, MAGIC_V1, MIDDLES, SysFlag

SCAN_NS_MAX: Final = 3_000_000
"""Of one walk, in nanoseconds: some hundred messages with an ordinary expression."""

_V6_BITS: Final = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6
_SYS_FLAG_AT: Final = 36
_MAGIC_LAST_AT: Final = 7
_MAGIC_V1_LAST: Final = MAGIC_V1 & 0xFF
_BODY_AT: Final = {bits: HEAD.size + middle.size for bits, middle in MIDDLES.items()}


def scan(
    expression: Expression, clock_ns: Callable[[], int] = time.perf_counter_ns
) -> Callable[[memoryview], bool | None]:
    """Return a function that says of a record whether it is wanted, None when time is up.

    The first record is always asked about, so that a walk gets on.
    """
    accepts = expression.accepts
    until_ns = 0

    def accept(record: memoryview) -> bool | None:
        nonlocal until_ns
        now_ns = clock_ns()
        if not until_ns:
            until_ns = now_ns + SCAN_NS_MAX
        elif now_ns > until_ns:
            return None
        return accepts(properties_of(record))

    return accept


def properties_of(record: memoryview) -> bytes:
    """Return the property bytes of one whole record, without decoding the rest."""
    bits = int.from_bytes(record[_SYS_FLAG_AT : _SYS_FLAG_AT + 4], "big") & _V6_BITS
    body_at = _BODY_AT[bits]
    topic_at = body_at + int.from_bytes(record[body_at - 4 : body_at], "big")
    length_bytes = 1 if record[_MAGIC_LAST_AT] == _MAGIC_V1_LAST else 2
    topic_end = topic_at + length_bytes
    topic_end += int.from_bytes(record[topic_at:topic_end], "big")
    return bytes(record[topic_end + 2 :])
