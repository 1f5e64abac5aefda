"""Reads and writes over TLS, with and without a look at certificates."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator

import pyarrow as pa
import pytest
from support.servers.tls_certs import CERTS, mutual_tls
from support.stand_ins.fake_cluster import FakeBroker, FakeCluster

from aerobee.spark.errors import ClusterUnreachable
from aerobee.spark.network.brokers import Network
from aerobee.spark.network.cluster import LoopThread
from aerobee.spark.network.reads import NetworkPiece, network_records
from aerobee.spark.options.address import NetworkAddress
from aerobee.spark.options.query import parse_options
from aerobee.spark.records.selection import EVERYTHING
from aerobee.spark.sinks.options import parse_sink_options
from aerobee.spark.sinks.plan import plan_write
from aerobee.spark.sinks.row_ids import Attempted
from aerobee.spark.sinks.task import write_rows
from aerobee.spark.topics import TopicChoice

OWN = {"tlsCertPath": str(CERTS / "client.pem"), "tlsKeyPath": str(CERTS / "client.key")}
TRUST = {"tlsTrustCertPath": str(CERTS / "ca.pem"), "tlsCheckHostname": "true"}


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    """A broker, and nameserver, that takes TLS alone, from those who have a certificate."""
    tls = mutual_tls()
    cluster = FakeCluster(tls=tls)
    with LoopThread("test") as loop:
        loop.run(cluster.__aenter__())
        cluster.create("orders", 1)
        yield cluster.brokers[0]
        loop.run(cluster.__aexit__())


def count(address: NetworkAddress) -> int:
    """How many messages a driver and its task read."""
    with Network(address) as network:
        ranges = network.bounds(TopicChoice(names=frozenset({"orders"}))).values()
    piece: NetworkPiece = pickle.loads(pickle.dumps(NetworkPiece(address, tuple(ranges))))
    return sum(len(records) for _, records in network_records(piece, EVERYTHING))


@pytest.mark.parametrize("trust", [{}, TRUST])
def test_reads_and_writes(broker: FakeBroker, trust: dict[str, str]) -> None:
    """Driver and tasks speak TLS, and show their certificate."""
    given = {"namesrv": broker.cluster.namesrv, "tls": "true", **OWN, **trust}
    plan = plan_write(parse_sink_options({**given, "topic": "orders"}, stream=False))
    rows = pa.RecordBatch.from_pydict({"body": [b"1", b"2", b"3"]})
    assert write_rows(plan, Attempted(plan.sink, "", 0, 0), 0, [rows]).sent == 3
    address = parse_options(given).network
    assert address is not None
    assert count(address) == 3


@pytest.mark.parametrize(
    "given", [{}, {"tls": "true"}, {"tls": "true", **OWN, "tlsVerifyServer": "true"}]
)
def test_who_is_not_trusted_reads_nothing(broker: FakeBroker, given: dict[str, str]) -> None:
    """Plain TCP, no certificate of one's own, a server that no authority knows."""
    address = parse_options({"namesrv": broker.cluster.namesrv, **given}).network
    assert address is not None
    with pytest.raises(ClusterUnreachable, match="option namesrv: the cluster of"):
        count(address)


def test_password_is_not_shown() -> None:
    """In no text that names the cluster."""
    given = {"namesrv": "10.0.0.5:9876", "tls": "true", **OWN, "tlsKeyPassword": "s3cret"}
    assert "s3cret" not in f"{parse_options(given)!r}"


def test_nameserver_that_speaks_no_tls_is_told() -> None:
    """It ends the connection without a word; the text says so, and asks for the likely reason."""
    cluster = FakeCluster()
    with LoopThread("test") as loop:
        loop.run(cluster.__aenter__())
        given = {"namesrv": cluster.namesrv, "tls": "true"}
        address = parse_options(given).network
        assert address is not None
        with Network(address) as network, pytest.raises(ClusterUnreachable) as raised:
            network.brokers()
        loop.run(cluster.__aexit__())
    text = str(raised.value)
    assert given["namesrv"] in text
    assert not re.search(r":\s*;", text)
    assert "option tls" in text
