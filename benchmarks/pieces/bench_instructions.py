"""Instructions per message of the read loop, counted by Valgrind: the same on a busy machine.

    python -m benchmarks.pieces.bench_instructions

Time on a shared machine varies by a third, this by a thousandth; compare it before and after a
change of the hot path. It says nothing about caches and the kernel. Needs `valgrind`.
"""

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from aerobee.broker.compiled.choice import is_compiled
from benchmarks.pieces.messages import send_frame
from benchmarks.pieces.offline import offline_connection
from benchmarks.targets.compiling import PROJECT, ToolMissing, tool

FRAMES = 64
COMPILED = "compiled"
FEW, MANY = 50, 350  # reads; the difference cancels what a start costs


async def run_reads(reads: int, *, compiled: bool) -> None:
    """Handle so many reads and end at once, so that stopping is not counted."""
    data = b"".join(send_frame(number, 1024) for number in range(FRAMES))
    with tempfile.TemporaryDirectory() as folder:
        async with offline_connection(
            Path(folder), log_bytes=64 << 20, compiled=compiled
        ) as connection:
            for _ in range(reads):
                connection.read(data)


def instructions(reads: int, way: str) -> int:
    """Return what Valgrind counts for a process that handles so many reads."""
    valgrind = tool("valgrind", "install valgrind to count instructions")
    command = [
        *(valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null"),
        *(sys.executable, "-m", "benchmarks.pieces.bench_instructions", "--reads", str(reads)),
        *("--way", way),
    ]
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    done = subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=True
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found, done.stderr
    return int(found[1])


def main() -> int:
    """Print instructions per message."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reads", type=int, help=argparse.SUPPRESS)  # within Valgrind
    parser.add_argument("--way", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.reads:
        asyncio.run(run_reads(options.reads, compiled=options.way == COMPILED))
        return 0
    for way in ("Python", COMPILED) if is_compiled() else ("Python",):
        try:
            spent = instructions(MANY, way) - instructions(FEW, way)
        except ToolMissing as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        each = spent / (FRAMES * (MANY - FEW))
        print(f"read loop, 1 KiB, {FRAMES} per read, {way}: {each:,.0f} instructions per message")
    return 0


if __name__ == "__main__":
    sys.exit(main())
