"""The Spark source's decoder over stores that are being, and have been, written by each broker."""

from collections import defaultdict
from pathlib import Path

import pytest
from support.disks.stores import read_log
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.ledger import Ledger
from support.interop.rocketmq_server import RocketMQ
from support.lake.plans import plan_log

from aerobee.spark.reading.pieces import piece_batches
from aerobee.spark.records.columns import COLUMNS, arrow_schema
from aerobee.spark.records.decode import Decoder
from aerobee.spark.records.selection import EVERYTHING

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(300)]

SEGMENT_BYTES = 1024 * 1024
NOT_STORED = ("tags_code", "broker", "_corrupt")
NAMES = [column.name for column in COLUMNS if column.name not in NOT_STORED]
KINDS: dict[str, type[Cluster]] = {"rocketmq": RocketMQ, "aerobee": Aerobee}


@pytest.mark.parametrize("kind", ["rocketmq", "aerobee"])
@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_reader_sees_every_acknowledged_message(kind: str, end: str, tmp_path: Path) -> None:
    """Of the running broker, and after its end; each field as a plain struct loop reads it."""
    ledger = Ledger({"spark-a": 4, "spark-b": 1}, seed=20261122)
    store = tmp_path / "store"
    settings = {"mappedFileSizeCommitLog": str(SEGMENT_BYTES)}
    cluster = KINDS[kind](tmp_path / kind, store=store, settings=settings)
    with cluster:
        ledger.create(cluster)
        for _ in range(3):
            ledger.write(cluster, 500)
            check(store, ledger)
        if end == "killed":
            cluster.kill_broker()
        else:
            cluster.stop_broker()
        check(store, ledger)


def check(store: Path, ledger: Ledger) -> None:
    """Hold what the reader makes of the store to the ledger and to the struct loop."""
    plan = plan_log(str(store), EVERYTHING, 1 << 20)
    decoder = Decoder(arrow_schema(NAMES), decompress=True)
    queues: dict[tuple[str, int], list[tuple[bytes, str, str]]] = defaultdict(list)
    truth = read_log(store)
    for piece in plan.pieces:
        for batch in piece_batches(piece, EVERYTHING, decoder):
            for row in batch.to_pylist():
                expected = next(truth)
                body = row.pop("body")
                row["properties"] = dict(row["properties"])
                for name in ("store_timestamp", "born_timestamp"):
                    row[name] = round(row[name].timestamp() * 1000)
                assert row == {name: expected[name] for name in row}
                if row["topic"] in ledger.topics:
                    queue = queues[row["topic"], row["queue_id"]]
                    assert row["queue_offset"] == len(queue)
                    queue.append((body, row["tags"] or "", row["keys"] or ""))
    assert queues == ledger.written
