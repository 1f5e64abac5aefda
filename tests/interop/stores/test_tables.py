"""Topics, groups and committed offsets change hands between RocketMQ 5.5.0 and our broker."""

import json
from pathlib import Path

import pytest
from support.golden.tables import GROUP, OFFSETS, TOPIC, fill
from support.interop.aerobee_server import Aerobee
from support.interop.cluster import Cluster
from support.interop.raw_messages import send
from support.interop.raw_remoting import RawClient
from support.interop.rocketmq_server import RocketMQ

pytestmark = pytest.mark.interop

LOWERED = {0: 7, 1: 0, 3: 0}
"""What our broker makes of OFFSETS at its start: queue 3 is empty, and ends before its offset."""


def send_what_was_consumed(server: Cluster) -> None:
    """Give queue 0 as many messages as the group has consumed of it."""
    with RawClient(server.broker) as client:
        for number in range(OFFSETS[0]):
            assert send(client, TOPIC, 0, b"%d" % number).code == 0


def check(server: Cluster, offsets: dict[int, int]) -> None:
    """Ask a broker for everything that `fill` had another one remember."""
    with RawClient(server.broker) as client:
        topic = json.loads(client.call(351, {"topic": TOPIC}).body)
        assert topic["readQueueNums"] == topic["writeQueueNums"] == 4
        assert topic["order"] is True and topic["attributes"] == {"message.type": "FIFO"}
        group = json.loads(client.call(352, {"group": GROUP}).body)
        assert (group["retryQueueNums"], group["retryMaxTimes"]) == (2, 3)
        assert group["consumeBroadcastEnable"] is False
        assert group["groupRetryPolicy"]["exponentialRetryPolicy"]["multiplier"] == 3
        for queue_id, offset in offsets.items():
            fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": str(queue_id)}
            assert client.call(14, fields).ext["offset"] == str(offset)


@pytest.mark.parametrize(("writer", "reader"), [(Aerobee, RocketMQ), (RocketMQ, Aerobee)])
@pytest.mark.timeout(300)
def test_tables_are_read_by_the_other_broker(
    tmp_path: Path, writer: type[Cluster], reader: type[Cluster]
) -> None:
    """Written by one, stopped cleanly, opened by the other."""
    store = tmp_path / "store"
    for name in ("writer", "reader"):
        (tmp_path / name).mkdir()
    with writer(tmp_path / "writer", store=store) as server:
        fill(server.broker)
        send_what_was_consumed(server)
        check(server, OFFSETS)
        server.stop()
    with reader(tmp_path / "reader", store=store) as server:
        check(server, LOWERED if reader is Aerobee else OFFSETS)
