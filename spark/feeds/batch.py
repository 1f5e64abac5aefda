"""From a batch's options to what its tasks read: three questions to a feed, in a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing

from aerobee.spark.feeds.open import open_feed
from aerobee.spark.offsets import BrokerQueue, QueueRange
from aerobee.spark.options.query import Options
from aerobee.spark.planning.asked import Asked
from aerobee.spark.planning.asked_names import check_offsets
from aerobee.spark.planning.ranges import resolve_ranges
from aerobee.spark.reading.partitions import TaskPartition
from aerobee.spark.records.selection import Selection


def plan_read(
    options: Options, columns: Sequence[str], selection: Selection
) -> Sequence[TaskPartition]:
    """What the tasks of a query for the columns read.

    `selection` is that of the options, narrowed by filters of the query. Raises OptionError,
    StoreUnreadable, ClusterUnreachable, DataLost.
    """
    with closing(open_feed(options)) as feed:
        asked = Asked.of_brokers(options, columns, selection, feed.brokers())
        bounds = feed.bounds(asked)
        return feed.partitions(asked, _ranges(asked, bounds))


def _ranges(asked: Asked, bounds: Mapping[BrokerQueue, QueueRange]) -> list[QueueRange]:
    """The ranges of wanted queues that the offsets name, of messages that there are."""
    selection, fail = asked.selection, asked.options.fail_on_data_loss
    for option, offsets in (("startingOffsets", asked.starting), ("endingOffsets", asked.ending)):
        check_offsets(option, offsets, selection.choice, bounds, fail=fail)
    ranges = resolve_ranges(bounds, asked.starting, asked.ending, fail_on_data_loss=fail)
    return [
        each
        for each in ranges
        if selection.wants_topic(each.key.topic) and selection.queue_ids.has(each.key.queue_id)
    ]
