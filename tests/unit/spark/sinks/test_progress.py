"""What nameservers keep of a sink, and what is made of it where they disagree or are away."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.interop.raw_messages import send
from support.interop.raw_remoting import RawClient

from aerobee.spark.errors import ClusterUnreachable
from aerobee.spark.network.brokers import Network
from aerobee.spark.offsets import BrokerQueue
from aerobee.spark.options.address import NetworkAddress
from aerobee.spark.sinks import plan as sink_plan
from aerobee.spark.sinks.options import SinkOptions
from aerobee.spark.sinks.plan import note_batch, plan_batch
from aerobee.spark.sinks.progress import SinkRecord, keep_record, read_record
from aerobee.testing import ClusterThread

RECORD = SinkRecord("query", 7, 1000, {BrokerQueue("broker-a", "orders", 0): 5}, begun=False)


@pytest.fixture
def cluster() -> Iterator[ClusterThread]:
    """Two nameservers and a broker."""
    with ClusterThread(nameservers=2) as cluster:
        cluster.create_topic("orders", queues=1)
        yield cluster


def both(cluster: ClusterThread) -> tuple[NetworkAddress, NetworkAddress, NetworkAddress]:
    """Both nameservers, and each of them alone."""
    one, two = cluster.namesrv_addr.split(";")
    return NetworkAddress((one, two)), NetworkAddress((one,)), NetworkAddress((two,))


def keep(address: NetworkAddress, record: SinkRecord) -> None:
    """Keep a record of sink `s`."""
    with Network(address) as network:
        network.run(keep_record(network, "s", record))


def read(address: NetworkAddress) -> SinkRecord | None:
    """Read it."""
    with Network(address) as network:
        return network.run(read_record(network, "s"))


def test_latest_record_counts(cluster: ClusterThread) -> None:
    """Kept at all nameservers; one that has missed a change only makes the next look longer."""
    all_of_them, one, two = both(cluster)
    assert read(all_of_them) is None
    keep(all_of_them, RECORD)
    assert read(one) == read(two) == RECORD
    later = replace(RECORD, at_ms=2000, begun=True)
    keep(two, later)
    assert read(all_of_them) == later
    assert read(one) == RECORD


def test_nameserver_that_is_away(cluster: ClusterThread) -> None:
    """It may have a later record: an attempt counts as begun."""
    all_of_them, one, _ = both(cluster)
    keep(all_of_them, RECORD)
    with_a_dead_one = NetworkAddress((*one.namesrv, "127.0.0.1:1"))
    assert read(with_a_dead_one) == replace(RECORD, begun=True)
    keep(with_a_dead_one, replace(RECORD, batch=8, at_ms=3000))
    assert read(all_of_them) == replace(RECORD, batch=8, at_ms=3000, begun=True)
    with pytest.raises(ClusterUnreachable, match="what sink s has written"):
        read(NetworkAddress(("127.0.0.1:1",)))


def test_driver_whose_clock_is_behind(cluster: ClusterThread) -> None:
    """A nameserver that was away has what looks later: it is not taken for the last word."""
    all_of_them, one, two = both(cluster)
    keep(one, replace(RECORD, batch=9, at_ms=900, begun=True))
    keep(two, replace(RECORD, batch=8, at_ms=1000))
    found = read(all_of_them)
    assert found is not None
    assert found.begun
    keep(all_of_them, RECORD)
    assert read(all_of_them) == RECORD


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"query": "q", "batch": 1, "ends": 5}'])
def test_nonsense_is_no_record(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is said, and not used."""
    with caplog.at_level(logging.WARNING):
        assert SinkRecord.of_text(text) is None
    assert "cannot be read" in caplog.text
    assert SinkRecord.of_text(RECORD.to_text()) == RECORD


def test_life_of_a_sink(cluster: ClusterThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that has begun is searched for from its beginning; one that is done, not at all."""
    address, _, _ = both(cluster)

    def straggle(seconds: float) -> None:
        """What reaches the broker meanwhile, of a worker whose driver is dead."""
        with RawClient(cluster.broker_addrs[0]) as client:
            send(client, "orders", 0, b"late")

    monkeypatch.setattr(sink_plan, "sleep", straggle)
    queue = BrokerQueue("broker-a", "orders", 0)
    options = SinkOptions(address, "orders", "s")
    first = plan_batch(options)
    assert first.lows == first.ends == {queue: 0}
    kept = read(address)
    assert kept is not None
    assert (kept.query, kept.batch, kept.begun) == ("", -1, True)
    again = plan_batch(options)
    assert (again.record, again.lows, again.ends) == (kept, {queue: 0}, {queue: 1})
    note_batch(options, "query", 0, set())
    kept = read(address)
    assert kept is not None
    assert (kept.query, kept.batch, kept.begun) == ("query", 0, False)
    assert again.record is not None and kept.starts == {queue: 0}
    assert kept.begun_ms("query", 0) == again.record.at_ms
    assert kept.begun_ms("query", 1) is kept.begun_ms("other", 0) is None


def full(cluster: ClusterThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no nameserver have room for another value."""
    for namesrv in cluster.cluster.nameservers:
        monkeypatch.setattr(namesrv.kv, "_bytes_max", 0)


def test_micro_batch_whose_beginning_is_kept_nowhere_fails(
    cluster: ClusterThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is sent: what it sends could not be found by its next attempt."""
    address, _, _ = both(cluster)
    options = SinkOptions(address, "orders", "s")
    full(cluster, monkeypatch)
    with pytest.raises(ClusterUnreachable, match=r"no nameserver of .* keeps what sink s does"):
        plan_batch(options)


def test_end_that_is_kept_nowhere_is_found_by_the_next_batch(
    cluster: ClusterThread, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All is stored by then: nobody needs to fail, and the next one begins where this one did."""
    address, _, _ = both(cluster)
    options = SinkOptions(address, "orders", "s")
    plan = plan_batch(options)
    with monkeypatch.context() as patch:
        full(cluster, patch)
        note_batch(options, "query", 0, set())
    assert "micro-batch 0 is stored" in caplog.text
    monkeypatch.setattr(sink_plan, "sleep", lambda _: None)
    with RawClient(cluster.broker_addrs[0]) as client:
        send(client, "orders", 0, b"row")
    after = plan_batch(options)
    assert (after.lows, after.ends) == (plan.ends, {BrokerQueue("broker-a", "orders", 0): 1})


def test_records_of_early_versions_are_read() -> None:
    """They do not say where their batch began: such a batch is searched for everywhere."""
    early = {"query": "q", "batch": 3, "at_ms": 5, "begun": False, "ends": {}}
    record = SinkRecord.of_text(json.dumps(early))
    assert record is not None and (record.starts, record.begins) == ({}, {})
    assert [record.begun_ms("q", batch) for batch in (2, 3, 4)] == [0, 0, None]
