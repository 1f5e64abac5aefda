"""Style sheets and scripts: from this machine alone, under names that hold their hashes."""

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).with_name("static")
PREFIX: Final = "/static"
TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}
"""The kinds of files that are served; others in the folder are notes of ours."""
DIGITS: Final = 16  # of the hash that stands in an address


class Asset(NamedTuple):
    """A file as it is served: `integrity` is what browsers hold it against."""

    content: bytes
    content_type: str
    digest: str
    integrity: str


class Assets:
    """The files of `static/`, read once."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._assets = {
            path.name: _read(path) for path in sorted(folder.iterdir()) if path.suffix in TYPES
        }

    def url(self, name: str) -> str:
        """Return where a file is served; another content is another address."""
        return f"{PREFIX}/{self._assets[name].digest}/{name}"

    def integrity(self, name: str) -> str:
        """Return the hash of a file as the attribute `integrity` has it."""
        return self._assets[name].integrity

    def find(self, digest: str, name: str) -> Asset | None:
        """Return a file under its address of now."""
        asset = self._assets.get(name)
        return asset if asset is not None and asset.digest == digest else None


def _read(path: Path) -> Asset:
    content = path.read_bytes()
    sha384 = base64.b64encode(hashlib.sha384(content).digest()).decode()
    digest = hashlib.sha256(content).hexdigest()[:DIGITS]
    return Asset(content, TYPES[path.suffix], digest, f"sha384-{sha384}")
