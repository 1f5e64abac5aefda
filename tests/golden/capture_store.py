"""Lets the real RocketMQ write a small store and keeps the used bytes of its files.

    PYTHONPATH=tests python tests/golden/capture_store.py

Files go to `stores/stopped` and `stores/killed` as hex, with the zeros at their ends cut off;
`manifest.json` has their full sizes and every message that was acknowledged.
"""

import base64
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from support.golden.stores import save_store
from support.interop.ledger import Ledger
from support.interop.peers import JAVA_5, Consumer, Content
from support.interop.raw_messages import create_topic, send, wait_for_route
from support.interop.raw_remoting import RawClient
from support.interop.rocketmq_server import RocketMQ

STORES = Path(__file__).parent / "stores"
SEGMENT_BYTES = 16 * 1024
COMPRESSIONS = ("ZLIB", "LZ4", "ZSTD")


def main() -> None:
    """Write one store that is closed and one whose broker is killed."""
    for end in ("stopped", "killed"):
        with tempfile.TemporaryDirectory() as directory:
            settings = {"mappedFileSizeCommitLog": str(SEGMENT_BYTES)}
            server = RocketMQ(Path(directory), settings=settings)
            with server:
                facts = fill(server)
                if end == "stopped":
                    server.stop_broker()
                else:
                    server.kill_broker()
            shutil.rmtree(STORES / end, ignore_errors=True)
            save_store(server.store, STORES / end, {"segment_bytes": SEGMENT_BYTES} | facts)


def fill(server: RocketMQ) -> dict[str, Any]:
    """Write plain and compressed messages and a batch; commit offsets; return what was written."""
    ledger = Ledger({"golden": 2}, seed=5)
    ledger.create(server)
    ledger.write(server, 25)
    create_topic(server.broker, "compressed", 1)
    wait_for_route(server.namesrv, "compressed")
    for compression in COMPRESSIONS:
        os.environ["JAVA_TOOL_OPTIONS"] = f"-Drocketmq.message.compressType={compression}"
        JAVA_5.produce(server.namesrv, "compressed", [large(compression)])
    del os.environ["JAVA_TOOL_OPTIONS"]
    batch = [Content("TagA", f"key-{n}", f"batch {n} é中🐝".encode()) for n in range(3)]
    JAVA_5.produce(server.namesrv, "compressed", batch, batch=True)
    with Consumer(JAVA_5, server.namesrv, "compressed", "golden-group") as consumer:
        consumer.wait_for(6)
    ipv6 = write_over_ipv6(server)
    messages = [
        {
            "topic": topic,
            "queue": queue,
            "bodies": [base64.b64encode(body).decode() for body, _, _ in written],
        }
        for (topic, queue), written in sorted(ledger.written.items())
    ]
    bodies = [large(compression).body for compression in COMPRESSIONS] + [m.body for m in batch]
    encoded = [base64.b64encode(body).decode() for body in bodies]
    messages.append({"topic": "compressed", "queue": 0, "bodies": encoded})
    messages.append(ipv6)
    return {"messages": messages, "committed": {"compressed@golden-group": {"0": 6}}}


def write_over_ipv6(server: RocketMQ) -> dict[str, Any]:
    """Write a record whose born host is an IPv6 address."""
    create_topic(server.broker, "ipv6", 1)
    with RawClient(f"::1:{server.broker.rsplit(':', 1)[1]}") as client:
        assert send(client, "ipv6", 0, b"over ::1", {"TAGS": "TagA"}).code == 0
    return {"topic": "ipv6", "queue": 0, "bodies": [base64.b64encode(b"over ::1").decode()]}


def large(compression: str) -> Content:
    """Return a message that the client compresses."""
    return Content("TagA", compression, compression.encode() + b" x" * 3000)


if __name__ == "__main__":
    main()
