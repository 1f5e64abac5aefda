"""A broker that lost a part of its log serves the rest, and says what it has lost."""

import json
import re
import shutil
import time
from pathlib import Path

from support.servers.brokers import pull_command
from support.servers.live_broker import live_broker
from support.servers.tls_certs import CERTS

from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.message.record import iter_records

SEND = {"a": "p", "b": "t", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}


def damage(root: Path) -> tuple[int, int]:
    """Flip a byte of the third of five messages, and take away every note; return its place."""
    log_file = min((root / "commitlog").iterdir())
    data = bytearray(log_file.read_bytes())
    begin, end = (data.index(b"number %d" % number) for number in (2, 3))
    data[begin + 500] ^= 1
    log_file.write_bytes(data)
    for path in root.iterdir():
        if path.is_dir() and path.name.startswith("aerobee."):
            shutil.rmtree(path)
        elif path.name.startswith("aerobee.") or path.name == "checkpoint":
            path.unlink()
    (root / "abort").write_text("4711")
    return begin, end


async def test_damage_is_shown_and_the_broker_is_ready(tmp_path: Path) -> None:
    """To take it out of service would take the sound messages away, too."""
    async with live_broker(tmp_path, http_port=0) as live:
        for number in range(5):
            body = b"number %d" % number + bytes(1000)
            reply = await live.ask(RequestCode.SEND_MESSAGE_V2, SEND, body)
            assert reply.code == ResponseCode.SUCCESS
        assert await live.get("/readyz") == (200, "ready\n")
        shown = json.loads((await live.get("/api/broker"))[1])
        assert (shown["damage"], shown["degraded"], shown["reasons"]) == ([], [], [])
        assert shown["recovery"]["proof"] == live.broker.store.recovered.proof
    begin, end = damage(live.broker.settings.store_path_root_dir)
    async with live_broker(tmp_path, http_port=0) as live:
        status, text = await live.get("/readyz")
        size = end - begin
        ready, wrong = text.splitlines()
        assert (status, ready) == (200, "ready")
        assert wrong.startswith(f"damaged: {size} bytes of the log cannot be read, 1 spans")
        _, text = await live.get("/metrics")
        values = dict(re.findall(r"^(aerobee_store_\w+)\{.*\} (\S+)$", text, re.MULTILINE))
        assert float(values["aerobee_store_damaged_bytes"]) == size
        assert float(values["aerobee_store_damaged_spans"]) == 1
        assert float(values["aerobee_store_lost_messages"]) == 1
        assert float(values["aerobee_store_writable"]) == 1
        shown = json.loads((await live.get("/api/broker"))[1])
        (span,) = shown["damage"]
        assert span["end"] - span["begin"] == size and shown["damagedSpans"] == 1
        lost = {"topic": "t", "queueId": 0, "firstOffset": 2, "lastOffset": 2}
        assert span["queues"] == [lost]
        assert "/damaged/" in span["setAside"] and shown["ready"]
        assert shown["degraded"] == [wrong]
        reply = await live.ask(RequestCode.SEND_MESSAGE_V2, SEND, b"goes on")
        assert (reply.code, reply.ext["queueOffset"]) == (ResponseCode.SUCCESS, "5")


async def test_what_reads_pass_over_is_shown(tmp_path: Path) -> None:
    """A record that goes bad while the broker runs is given to nobody, and seen by operators."""
    pull = pull_command(0, topic="t").ext
    async with live_broker(tmp_path, http_port=0) as live:
        for number in range(5):
            reply = await live.ask(RequestCode.SEND_MESSAGE_V2, SEND, b"number %d" % number)
            assert reply.code == ResponseCode.SUCCESS
        store = live.broker.store
        position = store.queue("t", 0).entry(2)[0]
        store.segments.items[0].write(position + 4, bytes(4))
        _, text = await live.get("/readyz")
        assert text == "ready\n"
        found = await live.ask(RequestCode.PULL_MESSAGE, pull)
        taken = [bytes(record.body) for record in iter_records(bytes(found.body))]
        assert taken == [b"number %d" % number for number in (0, 1, 3, 4)]
        assert found.ext["nextBeginOffset"] == "5"
        status, text = await live.get("/readyz")
        ready, wrong = text.splitlines()
        assert (status, ready) == (200, "ready")
        assert wrong.startswith("damaged: 1 messages are passed over, the first at offset 2 of t-0")
        assert "aerobee.storage.repair" in wrong
        _, text = await live.get("/metrics")
        assert re.search(r"^aerobee_store_passed_over_messages\{.*\} 1.0$", text, re.MULTILINE)
        shown = json.loads((await live.get("/api/broker"))[1])
        lost = {"topic": "t", "queueId": 0, "firstOffset": 2, "lastOffset": 2}
        assert (shown["passedOver"], shown["degraded"]) == ([lost], [wrong])
        position = store.queue("t", 0).entry(3)[0]
        store.segments.items[0].write(position + 4, bytes(4))
        pull = pull_command(2, topic="t", maxMsgNums=2).ext
        found = await live.ask(RequestCode.PULL_MESSAGE, pull)
        assert found.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert found.ext["nextBeginOffset"] == "4"


async def test_a_twin_is_shown(tmp_path: Path) -> None:
    """Where operators look when consumers miss messages."""
    async with live_broker(tmp_path, http_port=0) as live:
        live.broker.context.cluster.twins.at = "10.1.1.1:10911"
        _, text = await live.get("/readyz")
        assert text == "ready\nanother broker serves under this name at 10.1.1.1:10911\n"
        _, text = await live.get("/metrics")
        assert re.search(r"^aerobee_name_in_use\{.*\} 1.0$", text, re.MULTILINE)


async def test_the_end_of_the_certificate_is_a_metric(tmp_path: Path) -> None:
    """Who watches it renews in time; a broker without a certificate has no such line."""
    name = "aerobee_certificate_expiry_timestamp_seconds"
    given = {
        "tls_server_cert_path": str(CERTS / "server.pem"),
        "tls_server_key_path": str(CERTS / "server.key"),
    }
    async with live_broker(tmp_path / "with", http_port=0, **given) as live:
        _, text = await live.get("/metrics")
        (ends_s,) = re.findall(rf"^{name}\{{.*\}} (\S+)$", text, re.MULTILINE)
        assert float(ends_s) > time.time()
    async with live_broker(tmp_path / "without", http_port=0) as live:
        _, text = await live.get("/metrics")
        assert not re.search(rf"^{name}\b", text, re.MULTILINE)
