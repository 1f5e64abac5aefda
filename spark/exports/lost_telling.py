"""What an export says of messages that it cannot have any more: an error, or a warning."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from aerobee.spark.at_rest.queue_ranges import LOST_NAMED_MAX
from aerobee.spark.errors import DataLost
from aerobee.spark.lake.manifest import Gap
from aerobee.spark.lost.reasons import ANOTHER, UNCOUNTED

log = logging.getLogger(__name__)


def tell_gaps(gaps: Sequence[Gap], *, fail: bool) -> None:
    """Raise DataLost with what is gone, or warn of it."""
    if not gaps:
        return
    named = "; ".join(map(str, gaps[:LOST_NAMED_MAX]))
    more = f"; and {len(gaps) - LOST_NAMED_MAX} more queues" if len(gaps) > LOST_NAMED_MAX else ""
    what = " and ".join(_kinds(gaps))
    if fail:
        hint = "--no-fail-on-data-loss (fail_on_data_loss=False) notes this and goes on"
        if any(gap.reason in ANOTHER for gap in gaps):
            hint += "; a store that was made anew may also get another name (name=path)"
        raise DataLost(f"{what}: {named}{more}. {hint}")
    log.warning("%s: %s%s; going on without", what, named, more)


def _kinds(gaps: Sequence[Gap]) -> list[str]:
    other = sum(gap.reason in ANOTHER for gap in gaps)
    deleted = sum(gap.reason == UNCOUNTED for gap in gaps)
    gone = [gap.missing for gap in gaps if gap.reason not in ANOTHER and gap.reason != UNCOUNTED]
    kinds = []
    if gone:
        count = sum(each.end - each.start for each in gone)
        kinds.append(f"{count} messages of {len(gone)} queues are lost to the export")
    if deleted:
        kinds.append(f"{deleted} queues were deleted, perhaps with messages of their own")
    if other:
        kinds.append(f"{other} queues are not the ones that were exported before")
    return kinds
