"""Compressed bodies."""

import random
import tracemalloc
import zlib

import pytest
from support.golden.java import java_bytes

from aerobee.remoting.codes import SysFlag
from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.message.compression import CODECS, compress, decompress

TEXT = b"aerobee aerobee aerobee aerobee"


@pytest.mark.parametrize("codec", CODECS)
def test_reads_java_s_and_its_own(codec: str) -> None:
    """Every codec, every level, short and long, dense and not."""
    sys_flag = SysFlag.COMPRESSED | CODECS[codec]
    assert decompress(java_bytes(f"compressed_{codec}"), sys_flag, bytes_max=len(TEXT)) == TEXT
    noise = random.Random(1).randbytes(100_000)
    for body in (b"", b"a", TEXT, noise, b"a" * 5_000_000):
        for level in (1, 5, 9):
            packed = compress(body, codec, level)
            assert decompress(packed, sys_flag, bytes_max=5_000_000) == body


def test_clients_before_5_0_name_no_codec() -> None:
    """No codec bits mean zlib; no compressed bit means hands off."""
    assert decompress(zlib.compress(TEXT), SysFlag.COMPRESSED, bytes_max=100) == TEXT
    assert decompress(b"as it is", CODECS["lz4"], bytes_max=1) == b"as it is"


def test_unknown_codecs_are_named() -> None:
    """Three bits have four values that nobody has given a meaning."""
    with pytest.raises(CorruptRecord, match="codec 7 is unknown"):
        decompress(b"", SysFlag.COMPRESSED | 0x700, bytes_max=1)
    with pytest.raises(ValueError, match="'lzma' is none of zlib, lz4, zstd"):
        compress(b"", "lzma")


@pytest.mark.parametrize("codec", CODECS)
def test_damage_is_found(codec: str) -> None:
    """Cut off anywhere, or garbage from the start."""
    sys_flag = SysFlag.COMPRESSED | CODECS[codec]
    packed = compress(random.Random(2).randbytes(1000), codec)
    for bad in (b"", b"garbage", packed[:-1], packed[:20], b"\0" + packed):
        with pytest.raises(CorruptRecord):
            decompress(bad, sys_flag, bytes_max=10_000)


@pytest.mark.parametrize("codec", CODECS)
def test_bombs_stay_small(codec: str) -> None:
    """A body that claims a gigabyte costs no more than the limit."""
    packed = compress(bytes(100_000_000), codec)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecord, match="over 1000000 bytes"):
            decompress(packed, SysFlag.COMPRESSED | CODECS[codec], bytes_max=1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_zstd_frame_that_hides_its_size_is_bounded_too() -> None:
    """Java's stream writer states no size, so the limit has to hold while unpacking."""
    import zstandard

    writer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    packed = writer.compress(bytes(100_000_000)) + writer.flush()
    with pytest.raises(CorruptRecord, match="over 1000000 bytes"):
        decompress(packed, SysFlag.COMPRESSED | CODECS["zstd"], bytes_max=1_000_000)
