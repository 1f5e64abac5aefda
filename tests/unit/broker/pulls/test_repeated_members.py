"""Pulls that come again while members come, and while some are watched, by both codes alike."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from support.pull_frames import pulls, sends
from support.repeated_pulls import Repeated, counted, known_of, pair, same, sure
from support.servers.twin_brokers import TwinBrokers
from support.wire import connect

from aerobee.broker.app import Broker
from aerobee.broker.compiled.choice import is_compiled
from aerobee.broker.front.connection import BrokerConnection
from aerobee.broker.members.group import Client
from aerobee.remoting.bodies import ConsumerData, SubscriptionData
from aerobee.remoting.codes import PullSysFlag
from aerobee.remoting.command import Command
from aerobee.remoting.frame import FrameReader

pytestmark = pytest.mark.skipif(not is_compiled(), reason="built without a C compiler")

COMMITS: Final = PullSysFlag.SUBSCRIPTION | PullSysFlag.COMMIT_OFFSET


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> Repeated:
    """Count what compiled code answers."""
    return counted(monkeypatch)


@pytest.fixture
def twins(monkeypatch: pytest.MonkeyPatch, repeated: Repeated) -> Iterator[TwinBrokers]:
    """A pair that is counted."""
    with pair(monkeypatch) as brokers:
        yield brokers


def come(connection: BrokerConnection, model: str) -> None:
    """Have a new connection be that of a member of group M that wants all of T."""
    wants = SubscriptionData(topic="T", sub_string="*", sub_version=1)
    data = ConsumerData(
        group_name="M", consume_type="CONSUME_PASSIVELY", message_model=model,
        consume_from_where="CONSUME_FROM_FIRST_OFFSET", subscription_data_set=[wants],
    )  # fmt: skip
    client = Client(connection, "come", 0, 477)
    pulls_of: Any = connection.traffic.pulls
    members = pulls_of._repeats._parts.members
    members.register_consumer(client, data, notified=False)


def pulled(written: bytes) -> list[Command]:
    """Return the replies to pulls; when others come, and notices, is left to chance."""
    reader = FrameReader()
    reader.feed(written)
    return [each for each in reader if each.is_response and each.opaque < 9]


@pytest.mark.parametrize("model", ["CLUSTERING", ""])
def test_a_member_that_has_just_come_need_not_wait(
    twins: TwinBrokers, repeated: Repeated, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    """Python sees once that a queue is its own; who is no member never owns one."""
    same(twins, sends(60) + sends(60, 1))
    kinds: list[dict[str, Any]] = [
        {"consumerGroup": "M", "sysFlag": int(COMMITS)}, {"consumerGroup": "M", "queue_id": 1},
    ]  # fmt: skip
    data = b"".join(pulls([3, 20, 33], **kind) for kind in kinds)
    made = BrokerConnection.connection_made

    def come_first(self: BrokerConnection, transport: Any) -> None:
        made(self, transport)
        if model:
            come(self, model)

    monkeypatch.setattr(BrokerConnection, "connection_made", come_first)
    for number in range(3):  # each time on a new connection, and the former one's queues
        before = repeated.pulls
        compiled, python = (pulled(each["written"]) for each in twins.exchange([data] * 4))
        assert compiled == python
        compiled, python = twins.each(known_of)
        assert compiled == python
        assert number or repeated.pulls - before >= 6
    fresh = twins.each(lambda broker: len(broker.context.consumers.handovers.fresh))
    assert fresh == ([3, 3] if model else [0, 0])


def test_who_is_watched_is_looked_at(
    twins: TwinBrokers, repeated: Repeated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By connection: the pulls of the others go on as they were."""
    same(twins, sends(60))
    sure(twins, repeated, pulls([3, 20, 33]), 3)
    twins.each(lambda broker: watch(broker, connect(broker)[0]))
    before = repeated.pulls
    same(twins, pulls([3, 20, 33]))
    assert repeated.pulls - before == 3
    made = BrokerConnection.connection_made

    def watched(self: BrokerConnection, transport: Any) -> None:
        made(self, transport)
        watch(self.traffic.pulls, self)

    monkeypatch.setattr(BrokerConnection, "connection_made", watched)
    same(twins, pulls([3, 20, 33]))
    assert repeated.pulls - before == 3


def watch(where: Any, connection: BrokerConnection) -> None:
    """Have the pulls of a connection looked at."""
    owners = where.context.consumers.handovers if isinstance(where, Broker) else where._handovers
    owners.watched[connection] = {}
