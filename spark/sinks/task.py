"""What one task writes: its rows as messages, without those that an earlier attempt has stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aerobee.spark.network.brokers import Network
from aerobee.spark.sinks.earlier import earlier_tails, stored_ids
from aerobee.spark.sinks.parcels import Packing, TopicMet
from aerobee.spark.sinks.plan import SinkPlan
from aerobee.spark.sinks.row_ids import Attempted
from aerobee.spark.sinks.rows import rows_of
from aerobee.spark.sinks.sends import RowSends

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class SinkReport:
    """What a task has done: rows that it sent, and rows that it found stored."""

    query: str
    topics: frozenset[str] = frozenset()
    sent: int = 0
    found: int = 0


def write_rows(
    plan: SinkPlan, attempted: Attempted, attempt: int, batches: Iterable[pa.RecordBatch]
) -> SinkReport:
    """Write the rows of a partition; `attempt` counts this task's attempts from 0.

    Raises InvalidMessage for a row that no broker takes, ClusterUnreachable.
    """
    with Network(plan.address) as network:
        sends = RowSends(network, attempted.prefix, plan.ends)

        def meet(topic: str) -> TopicMet:
            tails = earlier_tails(network, plan, attempted, attempt, topic)
            stored = network.run(stored_ids(network, tails, attempted.prefix))
            return TopicMet(network.run(sends.queues(topic)), stored)

        packing = Packing(attempted, meet)
        try:
            for batch in batches:
                parcels = packing.pack(rows_of(batch, plan.topic))
                network.run(sends.submit(parcels))
            network.run(sends.submit(packing.rest()))
            network.run(sends.finish())
        finally:
            network.run(sends.close())
    found = packing.found + sends.found
    return SinkReport(attempted.query, packing.topics, packing.rows - found, found)
