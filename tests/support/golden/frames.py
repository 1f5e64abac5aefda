"""Frames kept as text: what they say by a decoder of its own, and their bytes as hex.

    # client to broker
    # {"codec": "JSON", "code": 310, ...}
    000001c2000001a4...

The decoder shares no code with Aerobee; layouts are RemotingCommand's and RocketMQSerializable's.
"""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HEX_LINE_BYTES: Final = 64
LANGUAGES: Final = (
    *("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY"),
    *("OTHER", "HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS"),
)


@dataclass(frozen=True, slots=True)
class GoldenFrame:
    """One recorded frame; `header` is what `decode_header` returned."""

    direction: str
    header: dict[str, Any]
    frame: bytes

    @property
    def body(self) -> bytes:
        """What follows the header."""
        header_bytes = int.from_bytes(self.frame[5:8], "big")
        return self.frame[8 + header_bytes :]

    @property
    def is_reply(self) -> bool:
        """Whether the response bit is set."""
        return bool(self.header["flag"] & 1)


def split_frames(stream: bytes) -> Iterator[bytes]:
    """Yield each whole frame of one direction of a connection."""
    at = 0
    while at + 4 <= len(stream):
        (total,) = struct.unpack_from(">i", stream, at)
        if at + 4 + total > len(stream):
            return  # the connection was cut here
        yield stream[at : at + 4 + total]
        at += 4 + total


def decode_header(frame: bytes) -> dict[str, Any]:
    """Return what a frame's header says."""
    header_bytes = int.from_bytes(frame[5:8], "big")
    data = frame[8 : 8 + header_bytes]
    if frame[4] == 0:
        fields = json.loads(data)
        return {
            "codec": "JSON",
            "code": fields["code"],
            "language": fields["language"],
            "version": fields["version"],
            "opaque": fields["opaque"],
            "flag": fields["flag"],
            "remark": fields.get("remark"),
            "ext": {
                name: _as_text(value) for name, value in (fields.get("extFields") or {}).items()
            },
        }
    return _decode_binary(data)


def _as_text(value: Any) -> str:
    """Return a field as Java holds it; the C++ and Node clients write numbers and booleans bare."""
    return value if isinstance(value, str) else json.dumps(value)


def _decode_binary(data: bytes) -> dict[str, Any]:
    code, language, version, opaque, flag = struct.unpack_from(">hbhii", data)
    at = struct.calcsize(">hbhii")
    remark, at = _text(data, at, ">i")
    (ext_bytes,) = struct.unpack_from(">i", data, at)
    at += 4
    end = at + ext_bytes
    ext = {}
    while at < end:
        key, at = _text(data, at, ">h")
        ext[key], at = _text(data, at, ">i")
    return {
        "codec": "ROCKETMQ",
        "code": code,
        "language": LANGUAGES[language],
        "version": version,
        "opaque": opaque,
        "flag": flag,
        "remark": remark or None,
        "ext": ext,
    }


def _text(data: bytes, at: int, length_format: str) -> tuple[str, int]:
    (length,) = struct.unpack_from(length_format, data, at)
    at += struct.calcsize(length_format)
    return data[at : at + length].decode(), at + length


def save_frame(file: Path, direction: str, frame: bytes) -> None:
    """Write one frame with what it says."""
    file.parent.mkdir(parents=True, exist_ok=True)
    header = json.dumps(decode_header(frame), ensure_ascii=False)
    file.write_text(f"# {direction}\n# {header}\n{to_hex(frame)}")


def load_frame(file: Path) -> GoldenFrame:
    """Read one frame."""
    direction, header, *lines = file.read_text().splitlines()
    return GoldenFrame(direction[2:], json.loads(header[2:]), bytes.fromhex("".join(lines)))


def to_hex(data: bytes) -> str:
    """Return bytes as lines of hex."""
    starts = range(0, len(data), HEX_LINE_BYTES)
    return "".join(f"{data[start : start + HEX_LINE_BYTES].hex()}\n" for start in starts)


def from_hex(text: str) -> bytes:
    """Return the bytes that lines of hex stand for."""
    return bytes.fromhex("".join(text.split()))
