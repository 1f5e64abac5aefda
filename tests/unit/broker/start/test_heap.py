"""Turns of the loop find the memory of those before them, and what is more than that goes back."""

import subprocess
import sys
from pathlib import Path

import pytest

TURNS = """
import resource
from aerobee.broker.start.heap import keep_freed_memory

def turn():
    read = bytes(250_000)
    whole, record = read + b"rest", bytearray(270_000)
    return len(whole) + len(record)

def large_turn():
    whole = b"".join([bytes(250_000) for _ in range(17)])
    return len(bytes(memoryview(whole)[100:]))

def faults(turn=turn):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        turn()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 100

def anonymous_kib():
    line = next(line for line in open("/proc/self/status") if line.startswith("RssAnon"))
    return int(line.split()[1])

kept = keep_freed_memory()
faults()
turns, before = faults(), anonymous_kib()
much = [b"x" * 60_000 for _ in range(1_500)]
most = anonymous_kib()
del much
left = anonymous_kib() - before
faults(large_turn)
print(kept, turns, most - before, left, faults(large_turn))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")
def test_turns_fault_in_nothing_and_a_burst_is_given_back() -> None:
    """In a process of its own: the choice is for its life. So do turns with the largest body."""
    done = subprocess.run([sys.executable, "-c", TURNS], capture_output=True, text=True, check=True)
    kept, faults, most, left, large_faults = done.stdout.split()
    if kept == "False":
        pytest.skip("another C library")
    assert float(faults) < 5
    assert int(most) > 80_000
    assert int(left) < 12_000
    assert float(large_faults) < 500
