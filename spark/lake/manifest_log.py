"""The folder `_aerobee` of a lake: numbered manifests, each made once and never changed.

The number is the lock: a version comes into being by link(2), which of several runs, on one
machine or on several, only one can do. Spark, Hive and pyarrow do not look into folders whose
names begin with an underscore.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from aerobee.spark.errors import ExportFailed, ExportRefused
from aerobee.spark.lake.disk import DISK, Disk
from aerobee.spark.lake.manifest import ExportedFile, Manifest

FOLDER = "_aerobee"
LAST = "last"  # the number of the last version, for who finds fewer manifests
_NAME = re.compile(r"manifest-(\d{10})\.json")
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


def manifest_name(version: int) -> str:
    """The file name of a version."""
    return f"manifest-{version:010d}.json"


def version_of(name: str) -> int | None:
    """The version that a file name stands for, None if for none."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


class ManifestLog:
    """The versions of one lake, `root` being the lake's folder."""

    def __init__(self, root: Path, disk: Disk = DISK) -> None:
        self.folder = root / FOLDER
        self._disk = disk

    def versions(self) -> list[int]:
        """The numbers that there are, ascending."""
        try:
            found = [version_of(name) for name in self._disk.names(self.folder)]
        except FileNotFoundError:
            return []
        return sorted(version for version in found if version is not None)

    def read(self, version: int) -> Manifest:
        """One version. Raises ExportRefused where it is damaged, or missing."""
        path = self.folder / manifest_name(version)
        try:
            manifest = Manifest.decode(self._disk.read(path), str(path))
        except FileNotFoundError:
            raise ExportRefused(
                f"{path} is missing, and later ones are there: restore it"
            ) from None
        if manifest.version != version:
            raise ExportRefused(f"{path} says that it is version {manifest.version}: not ours")
        return manifest

    def last(self) -> Manifest | None:
        """The last version, None where nothing has been exported yet.

        Raises ExportRefused where it is damaged, or was there and is missing.
        """
        version = max(self.versions(), default=0)
        # over a network a folder's listing may be older than what an open tells
        while self._disk.exists(self.folder / manifest_name(version + 1)):
            version += 1
        noted = self._noted()
        if noted > version:
            raise ExportRefused(
                f"{self.folder / manifest_name(noted)} is missing, the last version: what it has"
                " would be exported again, beside the files that are there. Restore it; if an"
                f" earlier export was put back on purpose, remove {self.folder / LAST}"
            )
        return self.read(version) if version else None

    def backwards(self, version: int) -> Iterator[Manifest]:
        """The versions whose files count with `version`, from it back to one that replaced all."""
        while version > 0:
            manifest = self.read(version)
            yield manifest
            if manifest.replaces:
                return
            version -= 1

    def files(self, version: int) -> list[ExportedFile]:
        """The files that count with a version, the oldest first."""
        found = [file for each in self.backwards(version) for file in reversed(each.files)]
        return found[::-1]

    def is_committed(self, staged: Path) -> bool:
        """Whether a manifest that a run has prepared has become a version."""
        try:
            return self._same(staged)
        except FileNotFoundError:
            return False

    def commit(self, staged: Path) -> bool:
        """Make a prepared and synced manifest the version of its name; whether nobody else has.

        Raises ExportFailed where the file system cannot do it.
        """
        target = self.folder / staged.name
        try:
            self._disk.link(staged, target)
        except FileExistsError:
            # over a network the first answer may get lost, and the second try meet itself
            return self._same(staged)
        except FileNotFoundError:
            raise ExportFailed(
                f"{staged} is gone: another run took this one for dead, and removed what it had"
                " written; nothing was exported, run it again"
            ) from None
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            raise ExportFailed(
                f"{self.folder}: this file system has no hard links ({error.strerror}), by which"
                " runs commit; export to a local, NFS, CephFS or Lustre folder and copy it from"
                " there"
            ) from error
        self._disk.sync(self.folder)
        self._note(version_of(staged.name) or 0, staged)
        return True

    def _noted(self) -> int:
        try:
            return int(self._disk.read(self.folder / LAST))
        except (OSError, ValueError):  # of an early version, or torn: it only warns
            return 0

    def _note(self, version: int, staged: Path) -> None:
        """Keep the number of the last version; a run is not at fault where that fails."""
        if version <= self._noted():
            return  # somebody who came later was quicker
        aside = staged.with_name(LAST)
        with suppress(OSError):
            self._disk.write_file(aside, b"%d\n" % version)
            self._disk.rename(aside, self.folder / LAST)

    def _same(self, staged: Path) -> bool:
        return self._disk.read(self.folder / staged.name) == self._disk.read(staged)
