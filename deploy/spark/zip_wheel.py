"""Makes of a wheel a zip that `spark-submit --py-files` takes: zip_wheel.py WHEEL aerobee.zip

PySpark puts only .zip, .egg and .jar on the path of its workers, and Python up to 3.12 finds
`aerobee`, a package without an `__init__.py`, in a zip only where its folders are entries too. No
wheel is named or made like that. Compiled parts cannot be loaded from a zip and are left out:
Python does the same, more slowly.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path, PurePosixPath


def zip_wheel(wheel: Path, target: Path) -> None:
    """Copy the wheel's modules, and add an entry for each folder."""
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(target, "w") as made:
        names = [name for name in source.namelist() if not name.endswith((".so", ".pyd"))]
        folders = {folder for name in names for folder in PurePosixPath(name).parents}
        for folder in sorted(str(folder) for folder in folders if folder.name):
            made.writestr(f"{folder}/", b"")
        for name in names:
            made.writestr(name, source.read(name), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: zip_wheel.py aerobee-VERSION-....whl aerobee.zip")
    zip_wheel(Path(sys.argv[1]), Path(sys.argv[2]))
