"""What earlier attempts of a task have stored: where its rows may stand, and the ids of those."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final

from aerobee.remoting.message.properties import NAME_SEPARATOR, Property
from aerobee.spark.network.brokers import Network
from aerobee.spark.network.cluster import ConnectedCluster
from aerobee.spark.network.pulls import RangePulls
from aerobee.spark.offsets import Offsets, QueueRange
from aerobee.spark.records import loops
from aerobee.spark.records.cells import payload
from aerobee.spark.records.headers import Records
from aerobee.spark.records.replies import ReplyBuffer, find_records
from aerobee.spark.sinks.plan import SinkPlan
from aerobee.spark.sinks.row_ids import Attempted
from aerobee.spark.topics import TopicChoice

log = logging.getLogger(__name__)

CLOCKS_APART_MS: Final = 60_000  # what a broker's clock may be behind the driver's


def earlier_tails(
    network: Network, plan: SinkPlan, attempted: Attempted, attempt: int, topic: str
) -> list[QueueRange]:
    """Where in a topic's queues rows of earlier attempts may stand; `attempt` counts from 0.

    A batch whose number was written before has a checkpoint that was put back, or its driver has
    died before Spark knew that the sink had all of it. Raises ClusterUnreachable.
    """
    record, batch = plan.record, attempted.batch
    begun_ms = None if record is None else record.begun_ms(attempted.query, batch)
    lows: Offsets = {key: low for key, low in plan.lows.items() if key.topic == topic}
    if begun_ms is None and not attempt:  # what this attempt's tasks write is behind `ends`
        return [QueueRange(key, low, plan.ends[key]) for key, low in lows.items()]
    bounds = network.bounds(TopicChoice(names=frozenset({topic})), missing_fails=False)
    if record is None or begun_ms is None:
        if unknown := [key for key in bounds if key not in lows]:
            lows |= network.offsets_at(unknown, plan.at_ms - CLOCKS_APART_MS)
    elif batch == record.batch and bounds.keys() <= record.starts.keys():
        lows = record.starts
    elif begun_ms:
        lows = network.offsets_at(bounds, begun_ms - CLOCKS_APART_MS)
    else:
        log.warning(
            "micro-batch %d was written longer ago than is known: all of topic %s is"
            " searched for its rows",
            batch,
            topic,
        )
        lows = {key: each.start for key, each in bounds.items()}
    return [QueueRange(key, max(each.start, lows[key]), each.end) for key, each in bounds.items()]


async def stored_ids(
    cluster: ConnectedCluster, ranges: Sequence[QueueRange], prefix: str
) -> set[str]:
    """The ids of messages in the ranges that begin with `prefix`.

    Messages of others cost their transfer and a look at their properties. What retention has
    deleted is told as a warning. Raises ClusterUnreachable where a queue cannot be read, also
    for want of read queues: what is stored in it would be written again.
    """
    ours = re.compile(f"{Property.UNIQ_KEY}{NAME_SEPARATOR}({prefix}[0-9A-F]*)".encode())
    found: set[str] = set()
    buffer = ReplyBuffer()
    pulls = RangePulls(cluster, ranges, fail_on_data_loss=False, queues_stay=True)
    async with aclosing(pulls.replies()) as all_replies:
        async for replies in all_replies:
            data, bounds = buffer.join([each.body for each in replies])
            starts, sizes = find_records(data, bounds)
            if len(starts):
                records = Records(data, 0, starts, sizes)
                cells = loops.chosen.ragged(
                    records.data, records.properties_at, records.properties_bytes
                )
                properties, _ = payload(cells)
                found.update(each.decode() for each in ours.findall(properties.tobytes()))
    return found
