"""Audit logs as they lie on the disk."""

import json
from pathlib import Path
from typing import Any


def lines(file: Path) -> list[dict[str, Any]]:
    """What a log says, the oldest line first."""
    older = [path for path in file.parent.glob(f"{file.name}.*")]
    files = [*sorted(older, key=lambda path: path.suffix, reverse=True), file]
    return [json.loads(line) for each in files for line in each.read_text().splitlines()]
