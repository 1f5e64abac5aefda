"""Who a staging folder belongs to, and whether that process can still come back to it."""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from aerobee.spark.lake.disk import DISK, Disk

FILE = "owner.json"
CLOCK = ".clock-"  # begins the names of files that are there for a moment
SILENT_S = 24 * 3600  # after which a run on another machine counts as dead
HEARTBEAT_S = 60.0


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, told apart from others with its number: by machine, boot and start."""

    host: str
    system: str  # boot and process namespace: where they differ, process numbers mean nothing
    pid: int
    started: str

    @classmethod
    def this_process(cls) -> Owner:
        """The one that asks."""
        return cls(socket.gethostname(), _system(), os.getpid(), _started(os.getpid()) or "")

    @property
    def ended(self) -> bool | None:
        """Whether the process is gone; None where that cannot be told from here."""
        if not self.system or not self.started or self.system != _system():
            return None
        return _started(self.pid) != self.started


def write_owner(folder: Path, disk: Disk = DISK) -> None:
    """Note that a folder is this process's."""
    owner = json.dumps(asdict(Owner.this_process()))
    disk.write_file(folder / FILE, owner.encode(), synced=False)


def is_dead(folder: Path, disk: Disk = DISK) -> bool:
    """Whether the run that a staging folder belongs to will never go on.

    Sure for processes of this machine; of others it is a day without a sign of life, measured
    by the clock of the file system.
    """
    try:
        ended = Owner(**json.loads(disk.read(folder / FILE))).ended
    except (OSError, ValueError, TypeError):
        ended = None  # not written yet, or a machine that lost power
    return ended if ended is not None else _silent_s(folder, disk) > SILENT_S


class Heartbeat:
    """Signs of life of a run, for those that cannot see its process."""

    def __init__(self, folder: Path, disk: Disk = DISK) -> None:
        self._file = folder / FILE
        self._disk = disk
        self._next = time.monotonic() + HEARTBEAT_S

    def beat(self) -> None:
        """Give one, if the last is some time ago."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + HEARTBEAT_S
            try:
                self._disk.touch(self._file)
            except FileNotFoundError:
                return  # taken for dead; the commit will say so


def _silent_s(folder: Path, disk: Disk) -> float:
    newest = 0.0
    for path in (folder, folder / FILE):
        try:
            newest = max(newest, disk.status(path).st_mtime)
        except OSError:
            continue
    return disk.now(folder.parent / f"{CLOCK}{os.getpid()}") - newest


def _system() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""  # no Linux


def _started(pid: int) -> str | None:
    """When a process started, in clock ticks since boot; None if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
