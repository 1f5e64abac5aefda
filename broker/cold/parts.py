"""Reads that may have to wait for the disk, as one."""

from dataclasses import dataclass

from aerobee.broker.cold.lookups import Lookups
from aerobee.broker.cold.reads import ColdReads


@dataclass(frozen=True, slots=True)
class Cold:
    """Made once by the broker."""

    reads: ColdReads
    lookups: Lookups
