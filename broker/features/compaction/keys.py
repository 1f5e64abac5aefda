"""The settings of compaction topics."""

import os
from typing import Final

from pydantic import Field

from aerobee.broker.settings.values import Milliseconds
from aerobee.remoting.config.settings import AtStart, ServerSettings

_INT_MAX: Final = 2**31 - 1


class CompactionKeys(ServerSettings):
    """How topics with `cleanup.policy=COMPACTION` are kept; without them nothing is done."""

    enable_compaction: AtStart[bool] = True
    # bytes of a file of records, and of one of their units: those of a store stay as they are
    compaction_mapped_file_size: AtStart[int] = Field(default=100 << 20, ge=1, le=_INT_MAX)
    compaction_cq_mapped_file_size: AtStart[int] = Field(default=10 << 20, ge=46, le=_INT_MAX)
    compaction_schedule_internal: Milliseconds = 15 * 60 * 1000  # sic; between a queue's rounds
    compaction_thread_num: AtStart[int] = Field(default=6, ge=1, le=1024)  # of rounds at a time
    max_offset_map_size: AtStart[int] = Field(default=100 << 20, ge=1, le=_INT_MAX)  # bytes, of all

    @property
    def rounds_max(self) -> int:
        """How many rounds run at a time, no more than there are CPUs."""
        return min(os.cpu_count() or 1, self.compaction_thread_num)
