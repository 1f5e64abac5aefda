"""The folder that exports go to: staged out of sight, committed by one link, then published.

What each step leaves when everything ends there is told in exports/EXPORT.md. Every step can be
done again, by whoever comes next, at the same time as by its own run.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from aerobee.spark.at_rest.queue_folders import batches_dir
from aerobee.spark.at_rest.stores import Store
from aerobee.spark.errors import ExportFailed, ExportRefused
from aerobee.spark.lake.disk import DISK, Disk
from aerobee.spark.lake.manifest import ExportedFile, Manifest
from aerobee.spark.lake.manifest_log import FOLDER, ManifestLog, manifest_name, version_of
from aerobee.spark.lake.owner import CLOCK, is_dead, write_owner
from aerobee.spark.options.places import lake_path

STAGING = "staging"
DELTA = "delta"
_DONE = ".done-"


class Lake:
    """One target folder and what the exports to it have left in it.

    `waiting` says, after a look, which versions could not be published, and why: they count, and
    their files stay where they were staged, for whoever tries next.
    """

    def __init__(self, place: str | Path, disk: Disk = DISK) -> None:
        """`place` is a folder's path, with `file:` before it or not. Raises OptionError."""
        self.root = Path(lake_path(str(place)))
        self.disk = disk
        self.waiting: dict[int, str] = {}
        self.log = ManifestLog(self.root, disk)
        self.staging = self.root / FOLDER / STAGING

    def check(self) -> None:
        """Refuse a folder with anything in it that no export has written."""
        if not self.disk.exists(self.root):
            if (leads_to := self.disk.link_target(self.root)) is not None:
                raise ExportRefused(
                    f"{self.root} is a link to {leads_to}, which is not there: is its"
                    " disk mounted? Make that folder, if it is to be a new one"
                )
            return
        if not self.disk.is_folder(self.root):
            raise ExportRefused(
                f"{self.root} is no folder: name one that does not exist, or is empty"
            )
        names = self.disk.names(self.root)
        if names and FOLDER not in names:
            raise ExportRefused(
                f"{self.root} is not empty and no earlier export ({names[0]} is not ours): name a"
                " folder that does not exist, or is empty"
            )

    def check_apart(self, stores: Iterable[Store]) -> None:
        """Refuse a folder within a store, whose broker would take it for a topic, or remove it."""
        root = self.disk.resolved(self.root)
        for store in stores:
            queues = store.queues_dir
            for folder in filter(None, (store.log_dir, queues, queues and batches_dir(queues))):
                if root.is_relative_to(self.disk.resolved(Path(folder))):
                    raise ExportRefused(
                        f"{self.root} lies in {folder}, which is the broker's own: name a folder"
                        " outside of the store"
                    )

    def begin(self, run: str) -> Path:
        """Make the folder that a run's tasks write into."""
        for path in self.disk.make_folders(self.staging):
            self.disk.sync(path.parent)
        folder = self.staging / run
        self.disk.make_folder(folder)
        write_owner(folder, self.disk)
        return folder

    def commit(self, manifest: Manifest) -> bool:
        """Make a run's manifest the lake's next version; False if another run was first.

        From then on its files count, whatever happens; so their folders are made before. Raises
        ExportFailed, and OSError where files could not get their places.
        """
        folder = self.staging / manifest.run
        staged = folder / manifest_name(manifest.version)
        try:
            for file in manifest.files:
                self.disk.status(folder / file.staged)
            self.disk.write_file(staged, manifest.encode())
            self.disk.sync(folder)
        except FileNotFoundError as error:
            raise ExportFailed(
                f"{error.filename} is gone before it was committed: do the executors write to the"
                " same folder as the driver, or was it removed? Nothing was exported"
            ) from None
        self._make_places(manifest)
        return self.log.commit(staged)

    def settle(self, *, replacing: bool = False) -> None:
        """Publish what runs have committed and not published; remove what dead runs have left.

        See `publish_committed`.
        """
        self.publish_committed(replacing=replacing)
        for path in self._staged():
            if path.name.startswith(CLOCK):
                with suppress(FileNotFoundError):
                    self.disk.remove(path)
            elif path.name.startswith(_DONE):
                self.disk.remove_tree(path)
            elif self._committed(path) is None and is_dead(path, self.disk):
                self.abandon(path.name)

    def publish_committed(self, *, replacing: bool = False) -> None:
        """Publish what runs have committed and not published; if there is none, write nothing.

        What cannot get to where readers look is told in `waiting`. Raises ExportFailed where
        files are lost, or a Delta table does not take them in; not for a run that is `replacing`
        all of them.
        """
        self.waiting = {}
        runs = [path for path in self._staged() if not path.name.startswith(".")]
        found = {self._committed(folder): folder for folder in runs}
        versions = sorted(version for version in found if version is not None)
        last = max(self.log.versions()) if versions else 0
        counting = min((each.version for each in self.log.backwards(last)), default=0)
        for version in versions:
            if version < counting:
                self._tidy(found[version].name)  # replaced before it was published
                continue
            manifest = self.log.read(version)
            try:
                self.publish(manifest)
            except OSError as error:
                self.waiting[version] = self._hindered(version, error)
            except ExportFailed as error:
                if not replacing:
                    raise
                self.waiting[version] = str(error)

    def publish(self, manifest: Manifest) -> None:
        """Bring a committed version's files to where readers look; as often as need be.

        In Delta's log a version never overtakes one that waits: it waits too. Raises ExportFailed
        where one of the files has been removed by somebody else, OSError where it cannot be moved.
        """
        folder = self.staging / manifest.run
        if manifest.replaces:
            self._drop_replaced(manifest.version)
            if manifest.format != DELTA:  # whose log says what is left out
                self._remove_replaced(manifest)
        elif manifest.format == DELTA and self.waiting:
            self.waiting[manifest.version] = self._hindered(
                manifest.version, f"version {min(self.waiting)}, which comes before it,"
            )
            return
        changed = set()
        for file in manifest.files:
            if not self._move(folder / file.staged, self.root / file.path):
                if not self.disk.exists(folder):
                    return  # another run has published all of it, and tidied up
                raise ExportFailed(
                    f"{folder / file.staged} is gone, although version {manifest.version} of the"
                    f" export has it: the lake has lost {file.rows} messages of {file.topic}"
                )
            changed.add((self.root / file.path).parent)
        for below in sorted({*changed, *(path.parent for path in changed), self.root}):
            if self.disk.is_folder(below):
                self.disk.sync(below)
        if manifest.format == DELTA:
            from aerobee.spark.lake.delta import publish_delta

            publish_delta(self.root, manifest)
        self._tidy(manifest.run)

    def abandon(self, run: str) -> None:
        """Remove what a run has staged, none of which has been published, and its empty folders."""
        folders: set[Path] = set()
        for prepared in self._prepared(self.staging / run):
            with suppress(OSError, ExportRefused):
                manifest = Manifest.decode(self.disk.read(prepared), prepared.name)
                folders.update((self.root / file.path).parent for file in manifest.files)
        self._tidy(run)
        for folder in folders:
            self._prune(folder)

    def _tidy(self, run: str) -> None:
        """Remove what a run has staged: nothing of it, or all of it, has been published."""
        gone = self.staging / f"{_DONE}{run}"
        try:
            self.disk.rename(
                self.staging / run, gone
            )  # at once: half a folder could be misunderstood
        except OSError:
            return  # removed by another run
        self.disk.remove_tree(gone)  # tasks that are still writing leave some

    def is_committed(self, run: str) -> bool:
        """Whether a run's files count and have not all been published yet."""
        return self._committed(self.staging / run) is not None

    def _staged(self) -> list[Path]:
        return self._below(self.staging)

    def _below(self, folder: Path) -> list[Path]:
        """What is in a folder, nothing where there is none."""
        try:
            return [folder / name for name in self.disk.names(folder)]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _prepared(self, folder: Path) -> list[Path]:
        """A run's manifests: several, where others were first."""
        return [path for path in self._below(folder) if version_of(path.name) is not None]

    def _committed(self, folder: Path) -> int | None:
        """The version that a manifest in a staging folder has become."""
        committed = (path for path in self._prepared(folder) if self.log.is_committed(path))
        return next((version_of(path.name) for path in committed), None)

    def _hindered(self, version: int, what: object) -> str:
        return (
            f"version {version} of the export counts, but its files are not where readers look:"
            f" {what} stands in the way; they are kept below {self.staging}, and the next run"
            " tries again"
        )

    def _make_places(self, manifest: Manifest) -> None:
        """Make the folders that a version's files move to, so that none is refused later."""
        for folder in {(self.root / file.path).parent for file in manifest.files}:
            if not self.disk.is_folder(folder):
                self.disk.make_folders(folder)
        if manifest.files:
            longest = max((file.path for file in manifest.files), key=len)
            with suppress(FileNotFoundError):
                self.disk.status(self.root / longest)  # a path that is too long is told

    def _drop_replaced(self, version: int) -> None:
        """Remove what earlier versions have staged: who is still publishing them finds nothing."""
        for folder in self._staged():
            earlier = self._committed(folder)
            if earlier is not None and earlier < version:
                self._tidy(folder.name)

    def _move(self, source: Path, target: Path) -> bool:
        """Move a file unless that has been done; whether it is there now."""
        for _ in range(2):
            try:
                self.disk.rename(source, target)
                return True
            except FileNotFoundError:
                if self.disk.exists(target):
                    return True
                if not self.disk.exists(source):
                    return False
                self.disk.make_folders(target.parent)
        return self.disk.exists(target)

    def _remove_replaced(self, manifest: Manifest) -> None:
        """Remove the files that the version replaces: first, so that none is seen twice."""
        kept = {file.path for file in manifest.files}
        emptied = set()
        for path in self._replaced(manifest.version - 1):
            if path.path not in kept:
                with suppress(FileNotFoundError, NotADirectoryError):  # not all were published
                    self.disk.remove(self.root / path.path)
                emptied.add((self.root / path.path).parent)
        for folder in sorted(emptied):
            self._prune(folder)

    def _replaced(self, version: int) -> list[ExportedFile]:
        return self.log.files(version) if version else []

    def _prune(self, folder: Path) -> None:
        """Remove folders that hold nothing any more, up to the lake's own."""
        while folder != self.root:
            try:
                self.disk.remove_folder(folder)
            except OSError:
                return  # not empty, or gone
            folder = folder.parent
