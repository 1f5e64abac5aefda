"""What a stream's sink has written, kept at the nameservers: where its next micro-batch begins.

Spark's checkpoint knows which micro-batch is to be written again after a crash, but not where in
the queues the crashed attempt began to write. The sink keeps that as one value of the
nameservers' key-value table (100, 101), and with it whether an attempt has begun since. An older
value only makes the next look for stored rows longer, as long as it is known to be older.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from aerobee.client.errors import BrokerRefused
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError, Unavailable
from aerobee.remoting.headers.kv import GetKVConfigReply, GetKVConfigRequest, PutKVConfigRequest
from aerobee.remoting.headers.typed import decode_header
from aerobee.spark.errors import ClusterUnreachable
from aerobee.spark.network.cluster import ConnectedCluster
from aerobee.spark.offsets import Offsets, format_offsets, parse_offsets

log = logging.getLogger(__name__)

NAMESPACE: Final = "AEROBEE_SPARK_SINKS"
BATCHES_KEPT: Final = 100  # as many as a checkpoint keeps (spark.sql.streaming.minBatchesToRetain)


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """Up to which batch of which query all is stored, and where the queues ended at `at_ms`.

    `begun` says that the next batch has been begun since: its attempts have written behind `ends`.
    `starts` is where the queues ended before that last batch was begun, `begins` when it and the
    ones before it first were (ms): a checkpoint that is put back has them written once more. Batch
    -1 of query "" is that of a sink that has written nothing yet.
    """

    query: str
    batch: int
    at_ms: int
    ends: Offsets
    begun: bool
    starts: Offsets = field(default_factory=dict)
    begins: dict[int, int] = field(default_factory=dict)

    def begun_ms(self, query: str, batch: int) -> int | None:
        """When a batch was first begun, None if it never was, 0 where that is not known any more.

        What was stored under a batch's number need not be what it has now.
        """
        if self.query != query:
            return None
        return self.begins.get(batch, 0 if batch <= self.batch else None)

    def followed(self, query: str, batch: int, ends: Offsets) -> SinkRecord:
        """The record once all of a batch is stored as well, where the queues end at `ends`."""
        known = self.query == query
        begins = {batch: self.at_ms} | (self.begins if known else {})
        starts = {**self.ends, **(self.starts if known and batch == self.batch else {})}
        kept = sorted(begins)[-BATCHES_KEPT:]
        return SinkRecord(
            query,
            batch,
            wall_clock_ms(),
            {**self.ends, **ends},
            begun=False,
            starts=starts,
            begins={number: begins[number] for number in kept},
        )

    def to_text(self) -> str:
        """As it is kept."""
        ends = json.loads(format_offsets(self.ends))
        kept = {"query": self.query, "batch": self.batch, "at_ms": self.at_ms, "begun": self.begun}
        starts = json.loads(format_offsets(self.starts))
        return json.dumps(kept | {"ends": ends, "starts": starts, "begins": self.begins})

    @classmethod
    def of_text(cls, text: str) -> Self | None:
        """What is kept; None where that is something else."""
        try:
            found = json.loads(text)
            ends, starts = _offsets(found["ends"]), _offsets(found.get("starts", {}))
            at_ms, begun = int(found["at_ms"]), bool(found["begun"])
            begins = {int(batch): int(ms) for batch, ms in found.get("begins", {}).items()}
            query, batch = str(found["query"]), int(found["batch"])
            return cls(query, batch, at_ms, ends, begun, starts, begins)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("a sink's record cannot be read and is not used: %s", error)
            return None


def _offsets(values: Any) -> Offsets:
    return parse_offsets(json.dumps(values), (), "a sink's record")


async def read_record(cluster: ConnectedCluster, sink: str) -> SinkRecord | None:
    """The latest record of a sink that any nameserver has; None if there is none.

    Where one does not answer, or has another, one may have missed what happened since, and clocks
    of drivers do not tell which: the batch then counts as begun. Raises ClusterUnreachable where
    none answers.
    """
    namesrvs = cluster.address.namesrv
    found: list[SinkRecord] = []
    problems: list[str] = []
    for namesrv in namesrvs:
        header = GetKVConfigRequest(namespace=NAMESPACE, key=sink)
        try:
            reply = await cluster.connections.request(namesrv, RequestCode.GET_KV_CONFIG, header)
            text = decode_header(GetKVConfigReply, reply.ext).value
        except BrokerRefused as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                problems.append(str(error))
        except (Unavailable, RequestError) as error:
            problems.append(str(error))
        else:
            record = SinkRecord.of_text(text or "")
            found += [record] if record is not None else []
    if len(problems) == len(namesrvs):
        raise ClusterUnreachable(
            f"option namesrv: no nameserver of {cluster.address} tells what sink {sink} has"
            f" written: {'; '.join(problems)}"
        )
    latest = max(found, key=lambda record: record.at_ms, default=None)
    if latest is None or found == [latest] * len(namesrvs):
        return latest
    return replace(latest, begun=True)


async def keep_record(cluster: ConnectedCluster, sink: str, record: SinkRecord) -> None:
    """Keep a record at every nameserver that takes it. Raises ClusterUnreachable if none does."""
    namesrvs = cluster.address.namesrv
    header = PutKVConfigRequest(namespace=NAMESPACE, key=sink, value=record.to_text())
    problems: list[str] = []
    for namesrv in namesrvs:
        try:
            await cluster.connections.request(namesrv, RequestCode.PUT_KV_CONFIG, header)
        except (Unavailable, BrokerRefused) as error:
            problems.append(str(error))
    if len(problems) == len(namesrvs):
        raise ClusterUnreachable(
            f"option namesrv: no nameserver of {cluster.address} keeps what sink {sink} does (the"
            f" table {NAMESPACE}): {'; '.join(problems)}"
        )
