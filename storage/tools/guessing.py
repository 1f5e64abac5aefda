"""Guesses the settings of a store at rest from its files, for tools that are told none."""

from argparse import ArgumentParser
from collections import Counter
from pathlib import Path

from aerobee.storage.disk.files import Files
from aerobee.storage.errors import WrongFileSize
from aerobee.storage.layout import ENTRY_BYTES, file_spans, log_files, queue_paths
from aerobee.storage.log.file_names import guess_size
from aerobee.storage.proofs.progress import read_progress
from aerobee.storage.settings import GIB, SEGMENT_BYTES_MIN, StoreSettings


def store_settings(
    root: Path,
    commit_log_dir: Path | None = None,
    segment_bytes: int | None = None,
    queue_file_bytes: int | None = None,
) -> StoreSettings:
    """Guess the file sizes of a store from its files; WrongFileSize where no store has such.

    `segment_bytes`, of the log files, and `queue_file_bytes` need not be guessed. Of queue files
    that are all of them cut short the size cannot be.
    """
    logs = [span for span in log_files(root, commit_log_dir) if span.size]
    if segment_bytes is None:
        found = read_progress(Files(), root)
        segment_bytes = guess_size(logs, found.position if found is not None else 0) or (
            None if logs else GIB
        )
    if segment_bytes is None or segment_bytes < SEGMENT_BYTES_MIN:
        raise WrongFileSize(
            f"{logs[0].path} has {logs[0].size} bytes, a log file has {SEGMENT_BYTES_MIN} or more,"
            " whole pages: say --log-file-bytes (mappedFileSizeCommitLog)"
        )
    entries = Counter(
        span.size // ENTRY_BYTES for _, _, path in queue_paths(root) for span in file_spans(path)
    )
    most = max(entries, key=lambda n: (entries[n], n), default=0)
    if queue_file_bytes is not None:
        if queue_file_bytes < ENTRY_BYTES or queue_file_bytes % ENTRY_BYTES:
            raise WrongFileSize(f"--queue-file-bytes {queue_file_bytes} is no multiple of 20")
        most = queue_file_bytes // ENTRY_BYTES
    return StoreSettings(
        root=root,
        commit_log_dir=commit_log_dir,
        segment_bytes=segment_bytes,
        queue_file_entries=most or 300_000,
    )


def add_store_arguments(parser: ArgumentParser) -> None:
    """Have a tool take a store and what cannot be guessed of it."""
    parser.add_argument("store", type=Path, help="storePathRootDir")
    parser.add_argument("--commit-log", type=Path, help="storePathCommitLog, if it lies elsewhere")
    parser.add_argument("--log-file-bytes", type=int, help="mappedFileSizeCommitLog, if need be")
    parser.add_argument("--queue-file-bytes", type=int, help="20 x entries, where files were cut")
