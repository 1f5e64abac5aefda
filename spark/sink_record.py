"""What a stream's sink has written, kept at the nameservers: where its next micro-batch begins.

Spark's checkpoint knows which micro-batch is to be written again after a crash, but not where in
the queues the crashed attempt began to write. The sink keeps that as one value of the
nameservers' key-value table (100, 101), and with it whether an attempt has begun since. An older
value only makes the next look for stored rows longer, as long as it is known to be older.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from typing import Final, Self

from aerobee.client.connections import Connections
from aerobee.client.errors import BrokerRefused
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError, Unavailable
from aerobee.remoting.headers._fields import decode_header
from aerobee.remoting.headers.kv import GetKVConfigReply, GetKVConfigRequest, PutKVConfigRequest
from aerobee.spark.errors import ClusterUnreachable
from aerobee.spark.network_address import NetworkAddress
from aerobee.spark.offsets import Offsets, format_offsets, parse_offsets

log = logging.getLogger(__name__)

NAMESPACE: Final = "AEROBEE_SPARK_SINKS"


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """Up to which batch of which query all is stored, and where the queues ended at `at_ms`.

    `begun` says that the next batch has been begun since: its attempts have written behind `ends`.
    Batch -1 of query "" is that of a sink that has written nothing yet.
    """

    query: str
    batch: int
    at_ms: int
    ends: Offsets
    begun: bool

    def covers(self, query: str, batch: int) -> bool:
        """Whether all rows of a batch are known to be stored."""
        return self.query == query and self.batch >= batch

    def to_text(self) -> str:
        """As it is kept."""
        ends = json.loads(format_offsets(self.ends))
        kept = {"query": self.query, "batch": self.batch, "at_ms": self.at_ms, "begun": self.begun}
        return json.dumps(kept | {"ends": ends})

    @classmethod
    def of_text(cls, text: str) -> Self | None:
        """What is kept; None where that is something else."""
        try:
            found = json.loads(text)
            ends = parse_offsets(json.dumps(found["ends"]), (), "a sink's record")
            at_ms, begun = int(found["at_ms"]), bool(found["begun"])
            return cls(str(found["query"]), int(found["batch"]), at_ms, ends, begun)
        except (ValueError, TypeError, KeyError) as error:
            log.warning("a sink's record cannot be read and is not used: %s", error)
            return None


async def read_record(
    connections: Connections, address: NetworkAddress, sink: str
) -> SinkRecord | None:
    """The latest record of a sink that any nameserver has; None if there is none.

    Where one does not answer, or has another, one may have missed what happened since, and clocks
    of drivers do not tell which: the batch then counts as begun. Raises ClusterUnreachable where
    none answers.
    """
    found: list[SinkRecord] = []
    problems: list[str] = []
    for namesrv in address.namesrv:
        header = GetKVConfigRequest(namespace=NAMESPACE, key=sink)
        try:
            reply = await connections.request(namesrv, RequestCode.GET_KV_CONFIG, header)
            text = decode_header(GetKVConfigReply, reply.ext).value
        except BrokerRefused as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                problems.append(str(error))
        except (Unavailable, RequestError) as error:
            problems.append(str(error))
        else:
            record = SinkRecord.of_text(text or "")
            found += [record] if record is not None else []
    if len(problems) == len(address.namesrv):
        raise ClusterUnreachable(
            f"option namesrv: no nameserver of {address} tells what sink {sink} has written:"
            f" {'; '.join(problems)}"
        )
    latest = max(found, key=lambda record: record.at_ms, default=None)
    if latest is None or found == [latest] * len(address.namesrv):
        return latest
    return replace(latest, begun=True)


async def keep_record(
    connections: Connections, address: NetworkAddress, sink: str, record: SinkRecord
) -> None:
    """Keep a record at every nameserver that takes it; where none does, that is a warning."""
    header = PutKVConfigRequest(namespace=NAMESPACE, key=sink, value=record.to_text())
    problems: list[str] = []
    for namesrv in address.namesrv:
        try:
            await connections.request(namesrv, RequestCode.PUT_KV_CONFIG, header)
        except (Unavailable, BrokerRefused) as error:
            problems.append(str(error))
    if len(problems) == len(address.namesrv):
        log.warning(
            "no nameserver keeps the record of sink %s: a restart would look for its rows from the"
            " last one on that was kept: %s",
            sink,
            "; ".join(problems),
        )
