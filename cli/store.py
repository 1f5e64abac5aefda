"""`aerobee store`: snapshots of a broker's files, checked and restored."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from aerobee.cli.program import Failure, WrongSettings, examples
from aerobee.cli.progress import progress_bar
from aerobee.storage.disk.files import Files
from aerobee.storage.errors import FolderTaken
from aerobee.storage.snapshots.manifest import StoreSnapshot
from aerobee.storage.snapshots.restoring import SnapshotRestorer, check_snapshot
from aerobee.storage.snapshots.taking import Show, SnapshotTaker, SnapshotWish

BAR_AFTER_S: Final = 2.0
EXIT_INTERRUPTED: Final = 130
_FOLDER: Final = click.Path(file_okay=False, path_type=Path)
_THERE: Final = click.Path(exists=True, file_okay=False, path_type=Path)
_MIB: Final = 1 << 20


@click.group(
    epilog=examples(
        "aerobee store snapshot ~/store /backup/monday",
        "aerobee store check /backup/monday",
        "aerobee store restore /backup/monday ~/store",
    )
)
def store() -> None:
    """The files of a broker, Aerobee's or RocketMQ's: snapshots, and the way back.

    On the machine that has the files; a broker may be serving them meanwhile.
    """


@store.command(
    epilog=examples(
        "aerobee store snapshot ~/store /backup/monday",
        "aerobee store snapshot /data/store /backup/1 --commit-log /fast/commitlog",
    )
)
@click.argument("folder", metavar="STORE", type=_THERE)
@click.argument("to", type=_FOLDER)
@click.option("--commit-log", type=_THERE, help="storePathCommitLog, if it lies elsewhere.")
def snapshot(folder: Path, to: Path, commit_log: Path | None) -> None:
    """Copy STORE (storePathRootDir) to the folder TO, with checksums, and read the copy again.

    A broker may serve it: the snapshot has all messages that were acknowledged before it began,
    and offsets of groups that are no newer. TO must not exist, or be empty, or be the same snapshot
    that was interrupted, which goes on then. It has users with passwords, if the broker has.
    """
    with _shown("copying and checking", "the same snapshot again goes on") as show:
        made = SnapshotTaker(Files(), SnapshotWish(folder, to, commit_log), show).run()
    click.echo(f"{to}: {_words(made)}")
    if made.was_served and made.log_end is None:
        click.echo(
            "warning: the log has damage near its end, and was copied as it read: messages that"
            " came meanwhile may be damaged, too",
            err=True,
        )


@store.command(epilog=examples("aerobee store check /backup/monday"))
@click.argument("folder", metavar="SNAPSHOT", type=_THERE)
def check(folder: Path) -> None:
    """Read every file of SNAPSHOT; exit code 1, and the file's name, where one was changed."""
    with _shown("checking", "nothing was changed") as show:
        found = check_snapshot(Files(), folder, show)
    click.echo(f"{folder}: {_words(found)}; sound")


@store.command(epilog=examples("aerobee store restore /backup/monday ~/store"))
@click.argument("folder", metavar="SNAPSHOT", type=_THERE)
@click.argument("to", metavar="STORE", type=_FOLDER)
def restore(folder: Path, to: Path) -> None:
    """Bring SNAPSHOT back as STORE, a folder that does not exist or is empty.

    Every file is checked while it is copied. Then start the broker with storePathRootDir=STORE and
    the brokerName that it had; the whole log lies in STORE/commitlog.
    """
    with _shown("restoring", "the same restore again goes on") as show:
        made = SnapshotRestorer(Files(), folder, to, show).run()
    click.echo(f"{to}: {_words(made)}")


@contextmanager
def _shown(label: str, after_break: str) -> Iterator[Show]:
    """Show progress in MiB, and say what follows an interruption."""
    try:
        with progress_bar(f"{label}, MiB", after_s=BAR_AFTER_S) as bar:
            yield lambda done, total: bar(done // _MIB, total // _MIB)
    except FolderTaken as error:
        raise WrongSettings(str(error)) from None
    except OSError as error:
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise Failure(f"{text}; make room or mend it, {after_break}") from None
    except KeyboardInterrupt:
        click.echo(f"interrupted: {after_break}", err=True)
        raise SystemExit(EXIT_INTERRUPTED) from None


def _words(manifest: StoreSnapshot) -> str:
    moment = datetime.fromtimestamp(manifest.taken_ms / 1000, UTC).isoformat(timespec="seconds")
    state = "while it was served" if manifest.was_served else "at rest"
    return (
        f"{len(manifest.files):,} files of {manifest.store}, taken"
        f" {moment.replace('+00:00', 'Z')} {state}"
    )
