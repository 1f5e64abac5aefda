"""How often an address may be wrong about a secret, and how often that is told."""

import logging
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from itertools import islice
from time import monotonic
from typing import Final

BURST: Final = 20
"""Wrong signatures of one address that are answered as they come."""
PER_SECOND: Final = 2.0
"""... and how many each second after that."""
DELAY_S_MAX: Final = 30.0
"""Nobody is made to wait for longer, however often his address was wrong."""
ADDRESSES_MAX: Final = 10_000
ROOM_SHARE: Final = 10
"""The part of them that is forgotten at once, where none is forgiven."""
NETWORK_BITS: Final = 64
"""Of an IPv6 address: whoever has one has all that begin so."""
TOLD_PER_SECOND: Final = 10


class Guesses:
    """Counts wrong signatures by address: past a burst their answers leave one after the other.

    Whoever is right is never made to wait, at the same address neither.
    """

    def __init__(self, clock_s: Callable[[], float] = monotonic) -> None:
        self._clock_s = clock_s
        self._wrong: dict[str, tuple[float, float]] = {}  # how many, when
        self._told = self._untold = 0
        self._told_since_s = clock_s()

    def failed(self, host: str) -> float:
        """Count a signature that was wrong; return for how long its answer is to wait, seconds."""
        now_s, host = self._clock_s(), _counted(host)
        count = self._of(host, now_s) + 1
        if len(self._wrong) >= ADDRESSES_MAX and host not in self._wrong:
            self._make_room(now_s)
        most = BURST + DELAY_S_MAX * PER_SECOND
        self._wrong[host] = (min(count, most), now_s)
        return min(max(0.0, (count - BURST) / PER_SECOND), DELAY_S_MAX)

    def tell(self, log: logging.Logger, host: str, code: int, remark: str) -> None:
        """Log a refusal; of many within a second only how many they were."""
        now_s = self._clock_s()
        if now_s - self._told_since_s >= 1:
            if self._untold:
                log.warning("access_refused more=%d", self._untold)
            self._told, self._untold, self._told_since_s = 0, 0, now_s
        if self._told < TOLD_PER_SECOND:
            self._told += 1
            log.warning("access_refused remote=%s code=%d remark=%r", host, code, remark[:500])
        else:
            self._untold += 1

    def _of(self, host: str, now_s: float) -> float:
        count, since_s = self._wrong.get(host, (0.0, now_s))
        return max(0.0, count - (now_s - since_s) * PER_SECOND)

    def _make_room(self, now_s: float) -> None:
        """Forget who has not been wrong for a while, and if need be some who were so first.

        Some, for looking at all takes time, and each new address would have it done.
        """
        self._wrong = {
            host: wrong for host, wrong in self._wrong.items() if self._of(host, now_s) > 0
        }
        excess = len(self._wrong) - ADDRESSES_MAX + 1 + ADDRESSES_MAX // ROOM_SHARE
        for host in list(islice(self._wrong, max(0, excess))):
            del self._wrong[host]


def _counted(host: str) -> str:
    """Return what stands for an address: of IPv6 the network that its owner has."""
    if ":" not in host:
        return host
    address = ip_address(host.partition("%")[0])
    if not isinstance(address, IPv6Address):
        return host
    if (mapped := address.ipv4_mapped) is not None:
        return str(mapped)
    return f"{int(address) >> (128 - NETWORK_BITS):x}::"
