"""A version of the export as a commit of a Delta table, by delta-rs (package deltalake).

The version's number is written as a Delta application transaction, so that a commit that was
made already, by this process or another, is not made twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aerobee.spark.errors import ExportFailed
from aerobee.spark.lake.formats import exported_schema
from aerobee.spark.lake.manifest import ExportedFile, Manifest

APPLICATION = "aerobee-export"
TRIES_MAX = 20  # against others who write to the same table
_PARTITIONED = ["topic", "date"]


def publish_delta(root: Path, manifest: Manifest) -> None:
    """Make the table have a version's files, which are in place, if it does not have them yet.

    Raises ExportFailed where the table cannot be written, or other writers never cease.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import CommitFailedError, DeltaError
    from deltalake.transaction import (
        CommitProperties,
        Transaction,
        create_table_with_add_actions,
    )

    actions = _added(manifest.files)
    properties = CommitProperties(
        custom_metadata={"aerobeeVersion": manifest.version, "aerobeeRun": manifest.run},
        max_commit_retries=0,  # a retry of our own looks first whether it is still needed
        app_transactions=[Transaction(APPLICATION, manifest.version)],
    )
    mode = "overwrite" if manifest.replaces else "append"
    failure: Exception | None = None
    for _ in range(TRIES_MAX):
        try:
            if not DeltaTable.is_deltatable(str(root)):
                _check_first(root, manifest)
                create_table_with_add_actions(
                    str(root),
                    _schema(manifest),
                    actions,
                    partition_by=_PARTITIONED,
                    commit_properties=properties,
                )
                return
            table = DeltaTable(str(root))
            if (table.transaction_version(APPLICATION) or 0) >= manifest.version:
                return
            table.create_write_transaction(
                actions, mode, _schema(manifest), _PARTITIONED, commit_properties=properties
            )
            return
        except CommitFailedError as error:
            failure = error
        except DeltaError as error:
            failure = error
            if not DeltaTable.is_deltatable(str(root)):
                break
    raise ExportFailed(
        f"version {manifest.version} of the export is complete, but {root} as a Delta table could"
        f" not take it in: {failure}; the next run tries again"
    ) from failure


def _added(files: Iterable[ExportedFile]) -> list[Any]:
    """The files as Delta's log says that they were added."""
    from deltalake.transaction import AddAction

    return [
        AddAction(
            path=file.path,
            size=file.bytes,
            partition_values={"topic": file.topic, "date": file.date},
            modification_time=file.last_ms,
            data_change=True,
            stats=_stats(file),
        )
        for file in files
    ]


def _check_first(root: Path, manifest: Manifest) -> None:
    """Refuse to begin a table with a later version, or readers would miss the earlier ones."""
    if manifest.version > 1 and not manifest.replaces:
        raise ExportFailed(
            f"{root / '_delta_log'} is gone, by which readers find the files of the versions before"
            f" {manifest.version}: restore it, or export everything again (overwrite)"
        )


def _schema(manifest: Manifest) -> Any:
    from deltalake import Schema

    return Schema.from_arrow(exported_schema(manifest.properties))


def _stats(file: ExportedFile) -> str:
    stats: dict[str, Any] = {"numRecords": file.rows}
    try:
        low, high = (_moment(ms) for ms in (file.first_ms, file.last_ms))
    except (ValueError, OverflowError, OSError):
        return json.dumps(stats)  # a time outside the calendar: no reader may skip by it
    stats["minValues"] = {"store_timestamp": low}
    stats["maxValues"] = {"store_timestamp": high}
    stats["nullCount"] = {"store_timestamp": 0}
    return json.dumps(stats)


def _moment(ms: int) -> str:
    moment = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")
