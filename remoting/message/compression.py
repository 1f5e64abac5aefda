"""Message bodies in zlib, LZ4 (frame format) and ZSTD; three bits of sysFlag say which.

LZ4 and ZSTD are loaded by the first message that needs them; `aerobee[compression]` installs them,
and without it that message is an ExtraMissing. Source: CompressionType,
ZlibCompressor, Lz4Compressor and ZstdCompressor.java.
"""

from typing import Any, Final, cast

from isal import isal_zlib

from aerobee.remoting.codes import SysFlag
from aerobee.remoting.errors import CorruptRecord
from aerobee.remoting.extras import missing, need

CODECS: Final[dict[str, int]] = {
    "zlib": SysFlag.COMPRESSION_ZLIB,
    "lz4": SysFlag.COMPRESSION_LZ4,
    "zstd": SysFlag.COMPRESSION_ZSTD,
}
"""The codecs by name, and the sysFlag bits that stand for each."""

_MODULES: Final = {"lz4": "lz4", "zstd": "zstandard"}

LEVEL_DEFAULT: Final = 5
_ISAL_LEVEL_MAX: Final = 3
_IsalError: Final = cast(type[Exception], isal_zlib.error)  # its stub calls it an instance
_LZ4_PIECE_BYTES: Final = 1024 * 1024
_ZSTD_WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024  # a frame may ask for much more memory


def compress(body: bytes, codec: str = "zlib", level: int = LEVEL_DEFAULT) -> bytes:
    """Compress a body; its message's sysFlag then needs `CODECS[codec] | SysFlag.COMPRESSED`.

    `level` goes from 1 (fast) to 9 (small); LZ4 takes no notice of it. Raises ValueError for an
    unknown codec, ExtraMissing for one that is not installed.
    """
    data: bytes
    if codec == "zlib":
        data = isal_zlib.compress(body, min(_ISAL_LEVEL_MAX, level // 2))
    elif codec == "lz4":
        # Java's LZ4FrameInputStream reads independent blocks only.
        data = _lz4_frame().compress(body, block_linked=False, store_size=False)
    elif codec == "zstd":
        data = _zstandard().ZstdCompressor(level=level).compress(body)
    else:
        raise ValueError(f"compression codec {codec!r} is none of {', '.join(CODECS)}")
    return data


def decompress(body: bytes, sys_flag: int, *, bytes_max: int) -> bytes:
    """Return the body as it was sent; unchanged where `sys_flag` says that it is not compressed.

    Raises CorruptRecord for damaged data, an unknown codec, and more than `bytes_max` bytes; memory
    stays near that limit whatever the data claims. Raises ExtraMissing for a codec that is not
    installed: the message is sound, so whoever reads it must not pass over it.
    """
    if not sys_flag & SysFlag.COMPRESSED:
        return body
    codec = sys_flag & SysFlag.COMPRESSION_MASK
    if codec in (0, SysFlag.COMPRESSION_ZLIB):
        return inflate(body, bytes_max)
    if codec == SysFlag.COMPRESSION_LZ4:
        return _decompress_lz4(body, bytes_max)
    if codec == SysFlag.COMPRESSION_ZSTD:
        return _decompress_zstd(body, bytes_max)
    raise CorruptRecord(f"compression codec {codec >> 8} is unknown")


def is_packed(body: bytes | memoryview, sys_flag: int) -> bool:
    """Whether a body is packed, as far as its first bytes tell, where its flags say that it is.

    Go's client 2.1.2 says of large replies that they are, naming no codec, which means zlib, and
    sends them as they are: what begins otherwise is no zlib (RFC 1950, 2.2).
    """
    if not sys_flag & SysFlag.COMPRESSED:
        return False
    if sys_flag & SysFlag.COMPRESSION_MASK:
        return True
    head = bytes(body[:2])
    return len(head) == 2 and head[0] & 0x0F == 8 and int.from_bytes(head, "big") % 31 == 0


def inflate(body: bytes, bytes_max: int) -> bytes:
    """Undo zlib; raises CorruptRecord for damaged data and for more than `bytes_max` bytes."""
    inflater = isal_zlib.decompressobj()
    try:
        data = inflater.decompress(body, bytes_max + 1)
    except _IsalError as error:
        raise CorruptRecord(f"zlib body is damaged: {error}") from None
    return _checked("zlib", data, inflater.eof, bytes_max)


def need_codec(codec: str) -> None:
    """Raise ExtraMissing for a codec whose package is not installed; nothing is imported."""
    module = _MODULES.get(codec)
    if module is not None and module in missing("compression"):
        need("compression", f"compression {codec!r}")


def _lz4_frame() -> Any:
    try:
        import lz4.frame
    except ImportError:
        need("compression", "a body packed by LZ4")
        raise
    return lz4.frame


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        need("compression", "a body packed by ZSTD")
        raise
    return zstandard


def _decompress_lz4(body: bytes, bytes_max: int) -> bytes:
    decompressor = _lz4_frame().LZ4FrameDecompressor()
    pieces: list[bytes] = []  # as many bytes as are asked for are taken before there is any
    left, given = bytes_max + 1, body
    try:
        while left and not decompressor.eof:
            piece = decompressor.decompress(given, min(left, _LZ4_PIECE_BYTES))
            if not piece and decompressor.needs_input:
                break
            pieces.append(piece)
            left, given = left - len(piece), b""
    except RuntimeError as error:
        raise CorruptRecord(f"LZ4 body is damaged: {error}") from None
    if not left:
        raise CorruptRecord(f"LZ4 body is over {bytes_max} bytes")
    return _checked("LZ4", b"".join(pieces), decompressor.eof, bytes_max)


def _decompress_zstd(body: bytes, bytes_max: int) -> bytes:
    zstandard = _zstandard()
    try:
        claimed = zstandard.get_frame_parameters(body).content_size
        if claimed not in (zstandard.CONTENTSIZE_UNKNOWN, zstandard.CONTENTSIZE_ERROR):
            _checked("ZSTD", b"", True, bytes_max, claimed)
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
        return cast(bytes, decompressor.decompress(body, max_output_size=bytes_max))
    except zstandard.ZstdError as error:
        raise CorruptRecord(f"ZSTD body is damaged or over {bytes_max} bytes: {error}") from None


def _checked(
    name: str, data: bytes, complete: bool, bytes_max: int, claimed_bytes: int = 0
) -> bytes:
    if max(len(data), claimed_bytes) > bytes_max:
        raise CorruptRecord(f"{name} body is over {bytes_max} bytes")
    if not complete:
        raise CorruptRecord(f"{name} body is cut off")
    return data
