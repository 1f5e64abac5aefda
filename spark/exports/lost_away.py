"""Stores that a lake knows and that are not there any more: a disk that is not mounted."""

from __future__ import annotations

import logging
from collections.abc import Collection

from aerobee.spark.at_rest.queue_ranges import StoreState
from aerobee.spark.at_rest.stores import Paths, would_find
from aerobee.spark.errors import StoreUnreadable
from aerobee.spark.lake.manifest import Manifest

log = logging.getLogger(__name__)


def stores_away(
    path: Paths, found: Collection[StoreState], base: Manifest, *, fail: bool
) -> tuple[str, ...]:
    """The stores of `base`, by label, that a pattern in `path` would find if they were there.

    Those too that are there and whose log has become empty: what a disk was mounted on. Raises
    StoreUnreadable where there are any, or warns.
    """
    there = {state.store.label for state in found}
    exported = {key.broker for key, offset in base.offsets.items() if offset}
    emptied = {
        state.store.label: f"{state.store.log_dir}, which is empty"
        for state in found
        if state.end <= state.start and state.store.label in exported
    }
    away = emptied | {
        label: log_dir
        for label, log_dir in base.stores.items()
        if label not in there and would_find(path, label, log_dir)
    }
    if not away:
        return ()
    named = ", ".join(f"{label} ({away[label]})" for label in sorted(away))
    text = (
        f"option path: stores that were exported before are not there: {named}; is a disk not"
        " mounted? What their brokers delete meanwhile will be lost"
    )
    if fail:
        raise StoreUnreadable(
            f"{text}. --no-fail-on-data-loss (fail_on_data_loss=False) goes on without them; name"
            " stores one by one (name=path) where others are exported from other machines"
        )
    log.warning("%s; going on without", text)
    return tuple(sorted(away))
