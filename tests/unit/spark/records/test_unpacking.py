"""Packed bodies take a bounded memory, whatever they unpack to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

GROWN_MB_MAX = 300

PROGRAM = """
import resource, sys
import lz4.frame, pyarrow as pa, zstandard
from isal import isal_zlib
from support.disks.stores import Stored
from aerobee.spark.exports.batches import unpacked_rows
from aerobee.spark.records.unpacking import unpacked_parts
from unit.spark.records.test_decode import records_of

def packed(codec, size):
    piece = bytes(1 << 20)
    if codec == "zlib":
        packer = isal_zlib.compressobj()
        return b"".join(packer.compress(piece) for _ in range(size)) + packer.flush()
    if codec == "lz4":
        packer = lz4.frame.LZ4FrameCompressor()
        parts = [packer.begin(), *(packer.compress(piece) for _ in range(size)), packer.flush()]
        return b"".join(parts)
    packer = zstandard.ZstdCompressor().compressobj()  # the frame does not say how long it is
    return b"".join(packer.compress(piece) for _ in range(size)) + packer.flush()

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

def look(codec, flag):
    bodies = [packed(codec, size) for size in (60, 90, 30, 60, 1)]
    records = records_of(*(Stored(body=body, sys_flag=flag) for body in bodies))
    batch = pa.RecordBatch.from_pydict({
        "body": pa.array(bodies, pa.binary()), "sys_flag": pa.array([flag] * 5, pa.int32())
    })
    sizes = []
    for part, array in unpacked_parts(records):
        sizes += [len(each.as_buffer()) >> 20 for each in array]
        del array
    for part in unpacked_rows(batch):
        sizes += [len(each.as_buffer()) >> 20 for each in part.column("body")]
        del part
    assert sizes == [60, 0, 30, 60, 1] * 2, sizes  # the bomb is as it was

before = peak()
for codec, flag in {"zlib": 0x301, "lz4": 0x101, "zstd": 0x201}.items():
    look(codec, flag)
    print(codec, peak() - before)
"""


def test_bombs_take_a_bounded_memory() -> None:
    """Small messages that unpack to hundreds of megabytes, in a process of their own."""
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        timeout=120,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    grown = dict(line.split() for line in found.stdout.splitlines())
    assert {*grown} == {"zlib", "lz4", "zstd"}
    assert max(map(int, grown.values())) < GROWN_MB_MAX, grown
