"""How a run's files become part of the lake, and what becomes of runs that others overtook."""

from __future__ import annotations

from dataclasses import replace

from aerobee.remoting.errors import AerobeeError
from aerobee.spark.errors import ExportFailed
from aerobee.spark.exports.plan import ExportPlan
from aerobee.spark.lake.lake import Lake
from aerobee.spark.lake.manifest import Manifest
from aerobee.spark.lost.stamps import ELSEWHERE, UNKNOWN
from aerobee.spark.offsets import BrokerQueue, Offsets


class Rival(AerobeeError):
    """What was planned was overtaken, by another run or a queue made anew: nothing of it counts."""


def commit_run(lake: Lake, manifest: Manifest, plan: ExportPlan) -> Manifest:
    """Commit a run's manifest, after what other runs have committed meanwhile, and publish it.

    Raises Rival where they exported some of the same queues, ExportFailed.
    """
    while True:
        last = lake.log.last()
        # whatever counts already is published first: readers of Delta go by the versions' order
        lake.settle(replacing=manifest.replaces)
        manifest = _following(last, manifest, plan)
        try:
            if lake.commit(manifest):
                lake.publish(manifest)
                return manifest
        except OSError as error:
            if not lake.is_committed(manifest.run):
                raise
            raise ExportFailed(
                f"version {manifest.version} of the export counts, but not all of its files are"
                f" where readers look: {error}; the next run brings them there"
            ) from error


def _following(last: Manifest | None, manifest: Manifest, plan: ExportPlan) -> Manifest:
    """The manifest as the version after `last`, if that is not one that it contradicts."""
    if (last.version if last else 0) == manifest.version - 1:
        return manifest
    same = last and (last.format, last.properties) == (manifest.format, manifest.properties)
    if last is None or not same or manifest.replaces or plan.unnumbered:
        raise Rival("the lake is another one by now")
    known = plan.base.offsets if plan.base else {}
    moved = plan.moved
    for key in moved:
        if last.offsets.get(key) != known.get(key):
            raise Rival(f"{key} was exported by another run")
    known_elsewhere = _elsewhere(plan.base.positions if plan.base else {})
    if (_elsewhere(plan.positions) | _elsewhere(last.positions)) - known_elsewhere:
        raise Rival("a store was made anew meanwhile")
    known_deleted = plan.base.deleted if plan.base else frozenset()
    if (known_deleted ^ last.deleted) & (moved | plan.deleted):
        raise Rival("another run has told of deleted queues")
    offsets = {**manifest.offsets, **last.offsets}
    positions = {**manifest.positions, **last.positions}
    # an earlier program may have made the last version: what it moved has no stamps there
    own = {key: stamp for key, stamp in manifest.stamps.items() if key not in last.positions}
    stamps = {**own, **last.stamps}
    for key in moved:
        offsets[key] = manifest.offsets[key]
        if key in manifest.positions:
            positions[key] = manifest.positions[key]
            stamps[key] = manifest.stamps.get(key, UNKNOWN)
    return replace(
        manifest,
        version=last.version + 1,
        stores={**last.stores, **manifest.stores},
        offsets=offsets,
        positions=positions,
        stamps=stamps,
        unnumbered=last.unnumbered,
        covered=_covered(last, manifest, plan),
        deleted=(last.deleted | plan.deleted) - plan.offsets.keys(),
    )


def _elsewhere(positions: Offsets) -> set[BrokerQueue]:
    return {key for key, position in positions.items() if position == ELSEWHERE}


def _covered(last: Manifest, manifest: Manifest, plan: ExportPlan) -> dict[str, int]:
    """How far both have all queues of each store: neither run has looked at the other's."""
    covered = dict(last.covered)
    for label in plan.covered:
        if label not in last.stores:
            covered[label] = manifest.covered[label]
        elif label in covered:
            covered[label] = min(covered[label], manifest.covered[label])
    return covered
