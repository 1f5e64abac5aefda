"""What is told of transactions: metrics, `/api/broker` and RocketMQ's file of counts."""

from pathlib import Path

import msgspec
from support.features.transactions import COMMIT, ROLLBACK, begin, end
from support.raw_peer import RawPeer
from support.servers.brokers import running_broker

from aerobee.broker.features.http import exposition, overview

FAR = {"transactionTimeOut": "60000"}


async def test_open_transactions_and_outcomes_are_told(tmp_path: Path) -> None:
    """How many are open, how old the oldest is, and what became of the others."""
    async with (
        running_broker(tmp_path, transactionMetricFlushInterval="50", **FAR) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        ended = [await begin(peer, b"m%d" % number) for number in range(3)]
        await begin(peer, b"open")
        await end(peer, ended[0], COMMIT)
        await end(peer, ended[1], COMMIT)
        await end(peer, ended[2], ROLLBACK)
        text = (await exposition.text(broker.context)).decode()
        values = {
            line.partition("{")[0]: float(line.rpartition(" ")[2])
            for line in text.splitlines()
            if not line.startswith("#")
        }
        assert values["rocketmq_half_messages"] == 1
        assert values["rocketmq_commit_messages_total"] == 2
        assert values["rocketmq_rollback_messages_total"] == 1
        assert 0 < values["aerobee_half_message_age_seconds"] < 60
        shown = overview.broker(broker.context)["transactions"]
        assert (shown["open"], shown["openByTopic"]) == (1, {"T": 1})
        assert shown["outcomes"] == {"commit": 2, "rollback": 1, "discarded": 0}
    text = (tmp_path / "store" / "config" / "transactionMetrics").read_text()
    table = msgspec.json.decode(text)
    assert table["transactionCount"]["T"]["count"] == 1
    assert table["dataVersion"]["counter"] >= 1
