"""Stores kept as text: the used bytes of each file as hex, and a manifest with the rest."""

import json
from pathlib import Path
from typing import Any, Final

from support.golden.frames import from_hex, to_hex

KEPT: Final = ("commitlog", "consumequeue", "config", "checkpoint", "abort", "lock")
MANIFEST: Final = "manifest.json"


def save_store(store: Path, target: Path, facts: dict[str, Any]) -> None:
    """Keep the files of `store` that say what it holds; `facts` go into the manifest."""
    sizes = {}
    for file in sorted(store.rglob("*")):
        name = file.relative_to(store)
        if not file.is_file() or name.parts[0] not in KEPT or name.suffix == ".bak":
            continue
        data = file.read_bytes()
        sizes[str(name)] = len(data)
        kept = target / f"{name}.hex"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(to_hex(data.rstrip(b"\0")))
    manifest = {"files": sizes} | facts
    (target / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")


def load_store(source: Path, store: Path) -> dict[str, Any]:
    """Make the files of a kept store again, in full size, and return its manifest."""
    manifest: dict[str, Any] = json.loads((source / MANIFEST).read_text())
    for name, size in manifest["files"].items():
        file = store / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(from_hex((source / f"{name}.hex").read_text()).ljust(size, b"\0"))
    return manifest
