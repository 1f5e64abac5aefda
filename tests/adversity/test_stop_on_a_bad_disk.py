"""A broker that cannot save its tables when it stops still closes its log cleanly."""

import shutil
from pathlib import Path

import pytest
from support.raw_peer import RawPeer
from support.servers.brokers import running_broker, send_command

from aerobee.broker.app import Broker
from aerobee.remoting.codes import ResponseCode


async def test_the_store_is_closed_all_the_same(tmp_path: Path) -> None:
    """What was acknowledged is flushed and `abort` is gone; the error is told afterwards."""
    stopped: list[Broker] = []
    with pytest.raises(OSError, match="config"):
        async with running_broker(tmp_path) as broker:
            stopped.append(broker)
            async with await RawPeer.connect(broker.port) as peer:
                assert (await peer.request(send_command())).code == ResponseCode.SUCCESS
            config = broker.settings.config_dir
            shutil.rmtree(config)
            config.write_text("no folder")  # root may write anywhere, but not in a file
            broker.context.tables.offsets.commit("G", "T", 0, 1)
            broker.context.tables.topics.file.mark()
    log = stopped[0].store.commit_log
    assert log.flushed_position == log.position > 0
    assert not (tmp_path / "store" / "abort").exists()
    config.unlink()
    async with running_broker(tmp_path) as broker:
        assert broker.store.commit_log.position == log.position
