"""Small helper scripts and where they are kept."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path


def cache_dir() -> Path:
    """The folder for files that can be made again at any time (`$XDG_CACHE_HOME/aerobee`).

    Where the home folder cannot be written, one in the system's temporary folder.
    """
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    path = Path(home, "aerobee")
    try:
        path.mkdir(parents=True, exist_ok=True)
        usable = os.access(path, os.W_OK | os.X_OK)
    except OSError:
        usable = False
    if not usable:
        path = Path(tempfile.gettempdir(), f"aerobee-{os.getuid()}")
        path.mkdir(mode=0o700, exist_ok=True)
        if path.stat().st_uid != os.getuid():  # scripts in it will be run
            path = Path(tempfile.mkdtemp(prefix="aerobee-"))
    return path


def cache_path(kind: str, target: Path) -> Path:
    """The place of a script around `target`; different targets have different places."""
    mark = hashlib.sha256(str(target).encode()).hexdigest()[:12]
    return cache_dir() / f"{kind}-{mark}"


def write_script(path: Path, text: str) -> Path:
    """Write an executable script, unless it is there already; safe against a second writer."""
    if path.is_file() and path.read_text() == text and os.access(path, os.X_OK):
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(name).chmod(0o755)
    Path(name).replace(path)
    return path
