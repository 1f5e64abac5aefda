"""A disk of a few megabytes, where this machine lets us have one."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest


@contextmanager
def small_disk(path: Path, size_mb: int) -> Iterator[Path]:
    """Mount a disk in memory at `path`; skips the test without root or where mounts are barred."""
    path.mkdir(parents=True)
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a disk of its own needs root")
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(path)]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no mounts here: {mounted.stderr.decode()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def remount(disk: Path, how: Literal["ro", "rw"]) -> None:
    """Let a small disk be read only, as systems do after an error, or written again."""
    subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], check=True)


def fill_up(path: Path) -> None:
    """Write a file until the disk has no room."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue
