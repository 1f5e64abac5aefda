"""Contexts of the kernel's AIO that tests hand on, instead of giving them back and asking anew.

To give one back waits for a grace period of the kernel, some 35 ms in which nobody computes: most
of what the start and the stop of a broker within a test would take.
"""

import os
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from aerobee.storage.disk import files
from aerobee.storage.disk.aio import LinuxKernel
from aerobee.storage.disk.worker import Bell, Completion

KEPT_MAX: Final = 4  # the machine has a limit for all processes, `fs.aio-max-nr`
_kept: Final[defaultdict[int, list[int]]] = defaultdict(list)  # contexts by their slots

os.register_at_fork(after_in_child=_kept.clear)  # they stay the parent's


class HandingOn(LinuxKernel):
    """The kernel, of which a context comes back at once if it has nothing under way."""

    def __init__(self) -> None:
        super().__init__()
        self._slots = 0
        self._under_way = 0

    def setup(self, slots: int) -> int:
        """Take one that was left, or a new one."""
        self._slots = slots
        with suppress(IndexError):  # threads take them as well
            return _kept[slots].pop()
        return super().setup(slots)

    def submit(self, context: int, syncs: Sequence[tuple[int, int]], bell: Bell) -> int:
        """Count what the kernel takes."""
        accepted = super().submit(context, syncs, bell)
        self._under_way += accepted
        return accepted

    def events(self, context: int) -> list[Completion]:
        """Count what it has done."""
        found = super().events(context)
        self._under_way -= len(found)
        return found

    def destroy(self, context: int) -> None:
        """Leave it to the next store; wait, as is usual, where something is under way."""
        if self._under_way or len(_kept[self._slots]) >= KEPT_MAX:
            super().destroy(context)
        else:
            _kept[self._slots].append(context)


def hand_on_contexts() -> None:
    """Have the stores of this process do so."""
    files.LinuxKernel = HandingOn  # type: ignore[attr-defined]
