"""Brokers taken out of service: what they still have is counted."""

import pytest

from aerobee.admin import AdminClient
from aerobee.admin.brokers import DrainState, first_rate
from aerobee.client import Message, Producer
from aerobee.remoting.errors import Unavailable
from aerobee.testing import EmbeddedCluster


async def test_delayed_messages_of_which_none_was_delivered_yet_keep_a_broker_from_being_done() -> (
    None
):
    """A level has no delivered offset until its first message goes out."""
    seen: list[DrainState] = []
    async with (
        EmbeddedCluster() as cluster,
        AdminClient(cluster.namesrv_addr) as admin,
        Producer("p", namesrv=cluster.namesrv_addr) as producer,
    ):
        await cluster.create_topic("orders", queues=1)
        await producer.send(Message("orders", b"x", delay_level=18))
        with pytest.raises(Unavailable, match="still has messages"):
            await admin.broker.drain("broker-a", timeout_s=1.5, settle_s=0, progress=seen.append)
        assert {state.delayed for state in seen} == {1}


@pytest.mark.parametrize(
    ("told", "rate"),
    [("1.5 2 3", 1.5), ("NaN 0 0", 0.0), ("1e999", 0.0), ("-Infinity", 0.0), ("", 0.0), ("x", 0.0)],
)
def test_a_rate_that_is_no_number_is_none(told: str, rate: float) -> None:
    """JSON of a chart has no other numbers: one broker's would end it for all."""
    assert first_rate({"putTps": told}, "putTps") == rate
