"""`write` and `writeStream` with `format("rocketmq")`: what Spark calls, on driver and tasks."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from aerobee.spark.errors import OptionError
from aerobee.spark.sinks.options import SinkOptions, parse_sink_options
from aerobee.spark.sinks.plan import SinkPlan, note_batch, plan_batch, plan_write
from aerobee.spark.sinks.row_ids import Attempted
from aerobee.spark.sinks.rows import check_rows
from aerobee.spark.sinks.task import SinkReport, write_rows

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

_COMMITTING_WORKER: Final = "pyspark.sql.worker.python_streaming_sink_runner"
_QUERY: Final = "sql.streaming.queryId"  # what Spark tells tasks of a stream
_BATCH: Final = "streaming.sql.batchId"


@dataclass
class SinkCommit(WriterCommitMessage):
    """What one task has done."""

    report: SinkReport


class SinkWriter(DataSourceArrowWriter):
    """Writes a DataFrame's rows as messages, once; tasks that are tried again repeat nothing."""

    def __init__(self, options: SinkOptions) -> None:
        self._plan = plan_write(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommit:
        """Send one partition. Raises InvalidMessage, ClusterUnreachable."""
        return _write(self._plan, iterator, "", 0)

    def commit(self, messages: list[Any]) -> None:
        """All is stored already."""
        reports = [message.report for message in messages if message is not None]
        sent, found = sum(each.sent for each in reports), sum(each.found for each in reports)
        log.info("wrote %d messages, %d of them by attempts that failed", sent + found, found)

    def abort(self, messages: list[Any]) -> None:
        """What was sent stays: brokers take nothing back."""
        log.warning("the write failed; messages of the tasks that had ended stay at the brokers")


class StreamSinkWriter(DataSourceStreamArrowWriter):
    """Writes the rows of micro-batches; what was stored by an earlier attempt is not sent again.

    Spark makes one for each micro-batch on the driver, before its tasks, and one more for commit.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._plan: SinkPlan | None = None
        if _COMMITTING_WORKER not in sys.modules:
            self._plan = plan_batch(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommit:
        """Send one partition of a micro-batch. Raises InvalidMessage, ClusterUnreachable."""
        from pyspark import TaskContext

        assert self._plan is not None, "tasks get what was planned on the driver"
        context = TaskContext.get()
        assert context is not None, "Spark calls this in tasks"
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        return _write(self._plan, iterator, query or "", int(batch or 0))

    def commit(self, messages: list[Any], batchId: int) -> None:
        """Note how far the sink has come."""
        reports = [message.report for message in messages if message is not None]
        if reports:
            topics = frozenset[str]().union(*(each.topics for each in reports))
            note_batch(self._options, reports[0].query, batchId, topics)

    def abort(self, messages: list[Any], batchId: int) -> None:
        """What was sent stays; the next attempt finds it."""
        log.warning("micro-batch %d failed; what it has sent is found by its next attempt", batchId)


def sink_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> SinkWriter:
    """The writer of `df.write`. Raises OptionError, ClusterUnreachable."""
    if overwrite:
        raise OptionError("write: messages cannot be overwritten: use mode('append')")
    return SinkWriter(_checked(options, schema, stream=False))


def stream_sink_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> StreamSinkWriter:
    """The writer of `df.writeStream`. Raises likewise."""
    if overwrite:
        raise OptionError("writeStream: outputMode is append or update, as brokers keep messages")
    return StreamSinkWriter(_checked(options, schema, stream=True))


def _checked(options: Mapping[str, str], schema: StructType, *, stream: bool) -> SinkOptions:
    parsed = parse_sink_options(options, stream=stream)
    check_rows(schema, parsed.topic)
    return parsed


def _write(
    plan: SinkPlan, iterator: Iterator[pa.RecordBatch], query: str, batch: int
) -> SinkCommit:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "Spark calls this in tasks"
    attempted = Attempted(plan.sink, query, batch, context.partitionId())
    return SinkCommit(write_rows(plan, attempted, context.attemptNumber(), iterator))
