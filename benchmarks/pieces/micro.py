"""Runs the micro-benchmarks one after the other, each in a process of its own."""

import subprocess
import sys
from typing import Final

from benchmarks.targets.compiling import PROJECT

MODULES: Final = ("bench_codec", "bench_append", "bench_pull", "bench_read_loop")


def run_all() -> None:
    """Print what they print; CalledProcessError if one fails."""
    for module in MODULES:
        subprocess.run([sys.executable, "-m", f"benchmarks.{module}"], cwd=PROJECT, check=True)
