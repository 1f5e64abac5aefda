"""Makes of wheels a zip that `spark-submit --py-files` takes: zip_wheel.py WHEEL... aerobee.zip

Both are needed, `aerobee` and `aerobee_server`. PySpark puts only .zip, .egg and .jar on the path
of its workers, and Python up to 3.12 finds a folder without an `__init__.py` in a zip only where it
is an entry too. No wheel is named or made like that. Compiled parts cannot be loaded from a zip and
are left out: Python does the same, more slowly.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath


def zip_wheels(wheels: Sequence[Path], target: Path) -> None:
    """Copy the wheels' modules, and add an entry for each folder."""
    with zipfile.ZipFile(target, "w") as made:
        folders: set[PurePosixPath] = set()
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as source:
                for name in source.namelist():
                    if name.endswith((".so", ".pyd")):
                        continue
                    for folder in reversed(PurePosixPath(name).parents):
                        if folder.name and folder not in folders:
                            folders.add(folder)
                            made.writestr(f"{folder}/", b"")
                    made.writestr(name, source.read(name), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: zip_wheel.py aerobee-....whl aerobee_server-....whl aerobee.zip")
    *given, made = map(Path, sys.argv[1:])
    zip_wheels(given, made)
