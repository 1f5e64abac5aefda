"""A store's messages to a lake of Parquet, Delta or JSON files, each message exactly once."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from aerobee.spark.errors import ExportFailed, ExportRefused
from aerobee.spark.exports.commit import Rival, commit_run
from aerobee.spark.exports.counts import count_gaps
from aerobee.spark.exports.lost import remade
from aerobee.spark.exports.options import (
    ExportOptions,
    Stores,
    Wanted,
    check_topics,
    checked_options,
)
from aerobee.spark.exports.plan import ExportPlan, StorePlan, plan_export
from aerobee.spark.exports.reads import Source
from aerobee.spark.exports.run import Progress, Runner, runner
from aerobee.spark.exports.summary import ExportSummary, summarize
from aerobee.spark.exports.task import ExportTask, Target, TaskResult
from aerobee.spark.lake.lake import DELTA, Lake
from aerobee.spark.lake.manifest import ExportedFile, Gap, Manifest
from aerobee.spark.lake.owner import Heartbeat
from aerobee.spark.planning.log_pieces import Piece
from aerobee.spark.planning.queue_pieces import EntryPiece
from aerobee.spark.records.selection import EVERYTHING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

ROUNDS_MAX = 10  # of runs that were overtaken by others, each time


def export(
    store: Stores,
    out_dir: str | Path,
    *,
    spark: SparkSession | None = None,
    progress: Progress | None = None,
    **wanted: Unpack[Wanted],
) -> ExportSummary:
    """Write messages to `out_dir/topic=.../date=.../`, each exactly once, all of a run or nothing.

    `store` names stores as the option `path` of the source does, or several such. `topics`, one
    or several, `topic_pattern` and `system_topics` choose among theirs. `since` (included) and
    `until` (excluded) are store times: datetimes without a zone are UTC, numbers ms since 1970.
    `incremental` goes on where the last export to `out_dir` ended, whatever `since` says; else a
    folder with an export is refused, unless `overwrite` replaces it. `fail_on_data_loss=False`
    notes what was gone before it could be exported, or is damaged, and goes on. `format` is
    parquet (if not said), delta or json, `compression` snappy, zstd or none, for json gzip, zstd or
    none; `properties` is map (if not said), or binary, as the log has them; `file_bytes` about the
    largest file (256 MiB); `decompress` unpacks bodies. `spark` is the session to use, else the
    active one, else a local one, made when there is something to write.

    Raises OptionError, ExportRefused, StoreUnreadable, DataLost, CorruptRecord, ExportFailed,
    JavaMissing; nothing was added to `out_dir` then, unless the text says so.
    """
    return export_as(checked_options(store, out_dir, wanted), spark, progress)


def export_as(
    options: ExportOptions,
    spark: SparkSession | None = None,
    progress: Progress | None = None,
) -> ExportSummary:
    """The same of options that are checked, to any lake. Raises likewise."""
    began = time.monotonic()
    for _ in range(ROUNDS_MAX):
        plan = _plan(options)
        try:
            with _told(options.lake, "write"):
                manifest = _Export(options, plan).run(spark, progress)
        except Rival:
            continue  # another run exported some of the same meanwhile: see what it left
        seconds = time.monotonic() - began
        for reason in options.lake.waiting.values():
            log.warning("%s", reason)
        named = options.path if isinstance(options.path, str) else ", ".join(options.path)
        return summarize(named, options.lake, plan, manifest, seconds)
    raise ExportFailed(
        f"other runs were first {ROUNDS_MAX} times, or topics were made anew meanwhile: too many of"
        f" them write to {options.lake.root}"
    )


def plan_to(store: Stores, out_dir: str | Path, **wanted: Unpack[Wanted]) -> ExportPlan:
    """What `export` with the same arguments would read; nothing is written.

    What it would refuse is refused.
    """
    return _plan(checked_options(store, out_dir, wanted), settle=False)


@contextmanager
def _told(lake: Lake, what: str) -> Iterator[None]:
    """Say what cannot be done in the lake's folder where the system refuses something."""
    try:
        yield
    except OSError as error:
        raise ExportFailed(f"cannot {what} below {lake.root}: {error}") from error


def _plan(options: ExportOptions, *, settle: bool = True) -> ExportPlan:
    """What to read now, after what the lake has by now."""
    lake = options.lake
    with _told(lake, "read"):
        lake.check()
    if settle:
        with _told(lake, "write"):
            lake.log.last()  # one that is missing is told before its run is tidied away
            lake.settle(replacing=options.overwrite)
    with _told(lake, "read"):
        last = lake.log.last()
    if last is not None:
        _check_goes_on(options, last)
    base = last if options.incremental else None
    plan = plan_export(
        options.path, options.selection, base, fail_on_data_loss=options.fail_on_data_loss
    )
    lake.check_apart(each.store for each in plan.stores)
    names = options.selection.choice.names
    if names is not None and plan.queues_tell:
        # what the lake has may have gone from the store with retention
        known = {key.topic for key in (*plan.offsets, *(last.offsets if last else ()))}
        if unknown := names - known:
            check_topics(unknown, [each.store for each in plan.stores])
    return plan if options.incremental else replace(plan, base=last)


def _check_goes_on(options: ExportOptions, last: Manifest) -> None:
    """Refuse to add to an export, or to put in its place, what would not go with it."""
    if DELTA in (last.format, options.format.name) and last.format != options.format.name:
        raise ExportRefused(
            f"{options.lake.root} holds an export as {last.format}, whose readers a change to"
            f" {options.format.name} would mislead: name another folder"
        )
    as_before = last.properties == options.format.properties
    if last.format == DELTA and not as_before:
        raise ExportRefused(
            f"{options.lake.root} is a Delta table with properties as {last.properties}, whose type"
            " stays: name that, or another folder"
        )
    if options.overwrite:
        return
    if not options.incremental:
        raise ExportRefused(
            f"{options.lake.root} already holds an export of {', '.join(last.stores.values())} made"
            f" {last.made}: exporting once more would double its messages; go on from it"
            " (--incremental), overwrite it (--overwrite), or name another folder"
        )
    if last.format != options.format.name:
        raise ExportRefused(
            f"{options.lake.root} holds an export as {last.format}: name that format, or another"
            " folder"
        )
    if not as_before:
        raise ExportRefused(
            f"{options.lake.root} holds an export with properties as {last.properties}: name that,"
            " or another folder"
        )


class _Export:
    """One try at an export, from its plan to its commit."""

    def __init__(self, options: ExportOptions, plan: ExportPlan) -> None:
        self._options = options
        self._plan = plan
        self._run = uuid.uuid4().hex[:12]

    def run(self, spark: SparkSession | None, progress: Progress | None) -> Manifest | None:
        """The version that was committed, None where there was nothing to add.

        Raises Rival where another run has exported some of the same meanwhile, or a queue is
        another one by now.
        """
        options, plan = self._options, self._plan
        nothing = not plan.messages and not plan.gaps and not plan.unnumbered
        if nothing and plan.base is not None and not options.overwrite:
            return None
        lake = options.lake
        # refused before anything is read; the queues are those of its offsets
        replace(self._manifest([], plan.gaps), positions={}, stamps={}).encode()
        folder = lake.begin(self._run)
        try:
            results: list[TaskResult] = []
            if any(True for _ in plan.pieces(1)):
                with runner(spark) as running:
                    results = self._results(running, folder, progress)
            self._check_same_queues()
            files = [file for result in results for file in result.files]
            lost = count_gaps(plan.ranges, results, plan.unnumbered, fail=options.fail_on_data_loss)
            return commit_run(lake, self._manifest(files, (*plan.gaps, *lost)), plan)
        finally:
            if not lake.is_committed(self._run):
                lake.abandon(self._run)

    def _check_same_queues(self) -> None:
        """Refuse what was read of queues that were made anew meanwhile: it may be of either."""
        plan = self._plan
        for store in plan.stores:
            if store.ranges and (
                others := remade(store.store, store.ranges, plan.positions, plan.stamps)
            ):
                raise Rival(f"{others[0]} was made anew while it was exported")

    def _results(
        self, running: Runner, folder: Path, progress: Progress | None
    ) -> list[TaskResult]:
        options, lake = self._options, self._options.lake
        target = Target(
            str(folder.absolute()), self._run, options.format, options.file_bytes, lake.disk
        )
        tasks = [
            ExportTask(number, self._source(store, piece), target)
            for number, (store, piece) in enumerate(self._plan.pieces(running.cores))
        ]
        return running.run(tasks, progress, Heartbeat(folder, lake.disk).beat)

    def _source(self, store: StorePlan, piece: EntryPiece | Piece) -> Source:
        options = self._options
        return Source(
            store.store,
            piece,
            # offsets have been chosen already; without them the tasks have to look
            EVERYTHING if store.numbered else options.selection,
            options.format.properties,
            options.decompress,
            options.fail_on_data_loss,
        )

    def _manifest(self, files: list[ExportedFile], gaps: tuple[Gap, ...]) -> Manifest:
        options, plan = self._options, self._plan
        base = plan.base if options.incremental else None
        return Manifest(
            version=plan.base.version + 1 if plan.base else 1,
            run=self._run,
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            format=options.format.name,
            properties=options.format.properties,
            stores={
                **(base.stores if base else {}),
                **{store.store.label: store.store.log_dir for store in plan.stores},
            },
            offsets={**(base.offsets if base else {}), **plan.offsets},
            positions={**(base.positions if base else {}), **plan.positions},
            stamps={**(base.stamps if base else {}), **plan.stamps},
            files=tuple(files),
            gaps=gaps,
            unnumbered=(*(base.unnumbered if base else ()), *plan.unnumbered),
            replaces=options.overwrite and plan.base is not None,
            covered={**(base.covered if base else {}), **plan.covered},
            deleted=((base.deleted if base else frozenset()) | plan.deleted) - plan.offsets.keys(),
        )
