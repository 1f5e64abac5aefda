"""A damaged store that our tool has mended is opened and served by RocketMQ, and nothing is cut."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.interop.aerobee_server import Aerobee
from support.interop.ledger import Ledger
from support.interop.raw_messages import create_topic, offset_of, read_queue
from support.interop.raw_remoting import RawClient
from support.interop.rocketmq_server import RocketMQ

pytestmark = [pytest.mark.interop, pytest.mark.needs("java"), pytest.mark.timeout(300)]

SEGMENT_BYTES = 1024 * 1024
MESSAGES = 4000  # about 5 MB


def test_rocketmq_serves_what_is_left_of_a_mended_store(tmp_path: Path) -> None:
    """A magic flipped in the 2nd file, the 3rd lost, the 4th cut short: the rest is all there.

    The first file is too long, the last two have each other's names: they have lost nothing.

    None of it lies in the log's first file, where RocketMQ passes over messages behind a blank
    entry until the end of that pull.
    """
    ledger = Ledger({"store-a": 4, "store-b": 1}, seed=20261122)
    store = tmp_path / "store"
    settings = {"mappedFileSizeCommitLog": str(SEGMENT_BYTES)}
    with Aerobee(tmp_path / "aerobee", store=store, settings=settings) as cluster:
        ledger.create(cluster)
        ledger.write(cluster, MESSAGES)
        cluster.stop_broker()
    logs = sorted((store / "commitlog").iterdir())
    with logs[1].open("r+b") as file:
        file.seek(file.read().index(b"\xda\xa3\x20\xa7", SEGMENT_BYTES // 2))
        file.write(b"\xff")
    logs[2].unlink()
    os.truncate(logs[3], SEGMENT_BYTES // 3)
    os.truncate(logs[0], SEGMENT_BYTES + 4711)
    written = [path for path in logs if path.exists() and path.read_bytes().rstrip(b"\0")]
    aside = tmp_path / "aside"
    written[-2].rename(aside)
    written[-1].rename(written[-2])
    aside.rename(written[-1])
    command = [sys.executable, "-m", "aerobee.storage.repair", "--write", str(store)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    files = {path.name for path in (store / "commitlog").iterdir()}
    with RocketMQ(tmp_path / "rocketmq", store=store, settings=settings) as cluster:
        found = lost = 0
        with RawClient(cluster.broker) as client:
            for (topic, queue), sent in ledger.written.items():
                assert offset_of(client, 30, topic, queue) == len(sent)
                read = {m.queue_offset: m.body for m in read_queue(client, topic, queue)}
                assert read == {offset: sent[offset][0] for offset in read}
                found, lost = found + len(read), lost + len(sent) - len(read)
            create_topic(cluster.broker, "store-c", 1)
        assert found + lost == MESSAGES
        assert lost < MESSAGES * 0.6, (found, lost)
        ledger.topics = {"store-a": 4}
        ledger.write(cluster, 50)
    assert files <= {path.name for path in (store / "commitlog").iterdir()}
