"""What the kernel knows of a server's processes: CPU time, memory, and whose children they are."""

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_STIME: Final = 12  # of what follows the command in /proc/PID/stat
_CPUCLOCK_SCHED: Final = 2  # the kernel's number for "nanoseconds on a CPU", of a whole process


def family(pid: int) -> list[int]:
    """Return the process and all that descend from it."""
    found = [pid]
    for parent in found:
        for children in _PROC.glob(f"{parent}/task/*/children"):
            try:
                found += [int(word) for word in children.read_text().split()]
            except OSError:  # the thread has just ended
                continue
    return found


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the CPU time of the processes so far, to the nanosecond.

    Read from each process's own CPU clock, which covers all threads, those that have ended too;
    the sum over /proc/PID/task would lose them.
    """
    return sum(time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED) for pid in pids)


def kernel_seconds(pids: Iterable[int]) -> float:
    """Return how much of their CPU time so far the processes were in the kernel, to 10 ms."""
    stats = ((_PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split() for pid in pids)
    return sum(int(fields[_STIME]) for fields in stats) / os.sysconf("SC_CLK_TCK")


def busy_seconds() -> float:
    """Return the CPU time of the whole machine so far, what its host gave to others included."""
    user, nice, system, _, _, interrupts, softly, stolen = map(
        int, (_PROC / "stat").read_text().split(maxsplit=9)[1:9]
    )
    ticks = user + nice + system + interrupts + softly + stolen
    return ticks / os.sysconf("SC_CLK_TCK")


def anonymous_bytes(pids: Iterable[int]) -> int:
    """Return the memory of the processes without mapped files (RssAnon)."""
    total = 0
    for pid in pids:
        for line in (_PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                total += int(line.split()[1]) * 1024
    return total


def pause(pids: Iterable[int]) -> None:
    """Stop the processes where they are, so that they cost nothing while another is measured."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)


def resume(pids: Iterable[int]) -> None:
    """Let paused processes go on."""
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
