"""A connection that is in very many groups holds nobody else up."""

import time

from support.stand_ins.fake_connection import FakeConnection
from support.stand_ins.quiet_environment import QuietEnvironment
from support.stand_ins.virtual_time import VirtualTime

from aerobee.broker.handover.environment import HandoverLimits
from aerobee.broker.handover.handovers import Handovers
from aerobee.broker.handover.owned_queue import Verdict
from aerobee.broker.members.group import Client, GroupQueue
from aerobee.broker.members.registry import Members
from aerobee.remoting.bodies import ConsumerData, SubscriptionData

GROUPS = 1_500
QUEUES = 16


def test_a_client_in_many_groups_goes_in_no_time() -> None:
    """What a change of one group costs does not grow with the queues of the client's others."""
    virtual = VirtualTime()
    members = Members(lambda group, told: handovers.notify(group, told), virtual.clock_ms)
    limits = HandoverLimits(lambda: 2_000, lambda: 2_000, GROUPS * QUEUES)
    handovers = Handovers(members, QuietEnvironment(virtual), limits)
    members.watchers.append(handovers)
    connection = FakeConnection("10.0.0.1:1")
    client = Client(connection, "c1", 0, 513)
    for at in range(GROUPS):
        subscriptions = [SubscriptionData(topic="t", sub_version=1)]
        data = ConsumerData(group_name=f"g{at}", subscription_data_set=subscriptions)
        members.register_consumer(client, data, notified=True)
        for queue_id in range(QUEUES):
            key = GroupQueue(f"g{at}", "t", queue_id)
            assert handovers.ask(connection, key, lambda verdict: None) is Verdict.OFFSET
    began_s = time.process_time()
    members.closed(connection)
    handovers.closed(connection)
    assert time.process_time() - began_s < 1.5  # looking through all of them: four times that
    virtual.advance(2_000)
    assert handovers.is_empty
