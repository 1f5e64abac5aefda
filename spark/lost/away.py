"""Stores that a lake knows and a pattern does not find any more: a disk that is not mounted."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from aerobee.spark.errors import StoreUnreadable
from aerobee.spark.stores import Paths, Store, would_find

log = logging.getLogger(__name__)


def stores_away(
    path: Paths, found: Collection[Store], known: Mapping[str, str], *, fail: bool
) -> tuple[str, ...]:
    """The known stores, by label, that a pattern in `path` would find if they were there.

    `known` are log folders by label. Raises StoreUnreadable where there are any, or warns.
    """
    there = {store.label for store in found}
    away = {
        label: log_dir
        for label, log_dir in sorted(known.items())
        if label not in there and would_find(path, label, log_dir)
    }
    if not away:
        return ()
    named = ", ".join(f"{label} ({log_dir})" for label, log_dir in away.items())
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
    return tuple(away)
