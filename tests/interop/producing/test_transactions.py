"""Java's and Go's producers of transactions against a broker, which is killed in between.

The C++ client's Python binding and ali-ons (Node) have none.
"""

import base64
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.interop import peers
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.peers import Peer
from support.interop.raw_messages import create_topic, read_queue, wait_for_route
from support.interop.raw_remoting import RawClient
from support.interop.sessions import Session

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TOPIC = "transactions"
SETTINGS = {"transactionTimeOut": "3000", "transactionCheckInterval": "2000"}
"""A client that has just started, or is held up, ends a transaction before it is asked about."""
BEAT_S = 30  # of the Go client, by which checks find it
LATE_S_MAX = 60  # what should come may take that much longer on a busy machine
CLIENTS = [peer for peer in peers.ALL if peer.name.startswith("java")]


def transact(session: Session, body: bytes, local: str, later: str = "unknown") -> dict[str, Any]:
    """Send one message in a transaction; say what is decided at once, and when asked."""
    text = base64.b64encode(body).decode()
    return session.ask(
        "transact", topic=TOPIC, group="tx-group", body=text, local=local, later=later
    )


def wait_for(cluster: Cluster, bodies: set[bytes], seconds: float = LATE_S_MAX) -> None:
    """Return once all of them are in their topic, each once and nothing else."""
    deadline = time.monotonic() + seconds
    with RawClient(cluster.broker) as client:
        while True:
            found = Counter(message.body for message in read_queue(client, TOPIC, 0))
            assert set(found.values()) <= {1}, found
            if found.keys() == bodies:
                return
            assert found.keys() <= bodies and time.monotonic() < deadline, (bodies, found)
            time.sleep(0.2)


def wait_until_there(cluster: Cluster, body: bytes, seconds: float = LATE_S_MAX) -> None:
    """Return once a message is in its topic, whatever else is."""
    deadline = time.monotonic() + seconds
    with RawClient(cluster.broker) as client:
        while body not in {message.body for message in read_queue(client, TOPIC, 0)}:
            assert time.monotonic() < deadline, body
            time.sleep(0.005)


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_java_transactions_end_once(client: Peer, tmp_path: Path) -> None:
    """Committed, rolled back, and decided when it was asked, over a kill in between."""
    with Aerobee(tmp_path, settings=SETTINGS) as cluster:
        create_topic(cluster.broker, TOPIC, 1)
        wait_for_route(cluster.namesrv, TOPIC)
        with Session(client, cluster.namesrv) as session:
            sent = transact(session, b"commit", "commit")
            assert (sent["status"], sent["state"]) == ("SEND_OK", "COMMIT_MESSAGE")
            transact(session, b"rollback", "rollback")
            wait_for(cluster, {b"commit"})
            transact(session, b"later commit", "unknown", "commit")
            transact(session, b"later rollback", "unknown", "rollback")
            wait_for(cluster, {b"commit", b"later commit"})
            transact(session, b"after the kill", "unknown", "commit")
            transact(session, b"just before", "commit")
            wait_until_there(cluster, b"just before")  # the END is one-way: it has arrived
            cluster.kill_broker()
            cluster.start()
            wait_for(cluster, {b"commit", b"later commit", b"after the kill", b"just before"})
            open_ones = {"later commit", "later rollback", "after the kill"}
            deadline = time.monotonic() + LATE_S_MAX
            while not open_ones <= (asked := set(session.ask("checks")["checked"])):
                assert time.monotonic() < deadline, asked
                time.sleep(0.1)
            assert not {"commit", "rollback"} & asked
            time.sleep(2.5)  # another check would come within that
            wait_for(cluster, {b"commit", b"later commit", b"after the kill", b"just before"})


def test_go_transactions_end_once(tmp_path: Path) -> None:
    """Committed, rolled back, and decided when it was asked: as soon as its heartbeat has come."""
    with Aerobee(tmp_path, settings=SETTINGS) as cluster:
        create_topic(cluster.broker, TOPIC, 1)
        wait_for_route(cluster.namesrv, TOPIC)
        with Session(peers.GO, cluster.namesrv) as session:
            sent = transact(session, b"commit", "commit")
            assert (sent["status"], sent["state"]) == ("SEND_OK", "COMMIT_MESSAGE")
            rolled_back = transact(session, b"rollback", "rollback")
            assert rolled_back["state"] == "ROLLBACK_MESSAGE"
            wait_for(cluster, {b"commit"})
            transact(session, b"later commit", "unknown", "commit")
            transact(session, b"later rollback", "unknown", "rollback")
            wait_for(cluster, {b"commit", b"later commit"}, BEAT_S + LATE_S_MAX)
            deadline = (
                time.monotonic() + LATE_S_MAX
            )  # both are asked at once, and answer one by one
            while len(asked := session.ask("checks")["checked"]) < 2:
                assert time.monotonic() < deadline, asked
                time.sleep(0.1)
            assert set(asked) == {"later commit", "later rollback"}
            time.sleep(2.5)  # another check would come within that
            wait_for(cluster, {b"commit", b"later commit"})
            assert session.ask("checks")["checked"] == asked
