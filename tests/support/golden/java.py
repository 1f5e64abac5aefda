"""What RocketMQ 5.5.0 was seen to write, by name (tests/golden/remoting)."""

from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parents[2] / "golden" / "remoting"


def java_bodies() -> dict[str, bytes]:
    """Return the JSON bodies by the name of their Java class."""
    return {name: value.encode() for name, value in _rows("bodies.tsv") if value.startswith("{")}


def java_text(name: str) -> str:
    """Return one value of the files that stands there once."""
    (value,) = [value for row, value in _rows("bodies.tsv") + _rows("bytes.tsv") if row == name]
    return value


def java_bytes(name: str) -> bytes:
    """Return one value that stands there in hex."""
    return bytes.fromhex(java_text(name))


def java_rows(name: str) -> list[tuple[str, str]]:
    """Return the rows of one name that hold two values."""
    rows = [value for row, value in _rows("bytes.tsv") if row == name]
    return [(first, second) for first, _, second in (row.rpartition("\t") for row in rows)]


def java_signatures() -> list[tuple[str, str, str, str]]:
    """Return what was signed (secret, header fields as JSON, body in hex), and the signature."""
    rows = [value.split("\t") for row, value in _rows("signatures.tsv") if row == "signature"]
    return [(secret, fields, body, signed) for secret, fields, body, signed in rows]


def _rows(file: str) -> list[tuple[str, str]]:
    lines = (_FOLDER / file).read_text("utf-8").split("\n")
    return [(name, value) for name, _, value in (line.partition("\t") for line in lines) if name]
