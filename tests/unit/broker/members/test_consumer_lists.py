"""Answers to 38 are made once for all that ask after one change, and are never those of before."""

import random

from support.stand_ins.fake_connection import FakeConnection

from aerobee.broker.members.consumer_lists import KEPT_BYTES_MAX, ConsumerLists
from aerobee.broker.members.group import Client
from aerobee.broker.members.registry import Members
from aerobee.remoting.bodies import ConsumerData, ConsumerListReply, decode_body
from aerobee.remoting.command import Language


def listed(members: Members, group: str = "g") -> bytes:
    """Return what a member is answered."""
    return members.lists.body(group, members.client_ids(group))


def join(members: Members, connection: FakeConnection, client_id: str, group: str = "g") -> None:
    """A heartbeat of one client."""
    client = Client(connection, client_id, Language.JAVA, 513)
    members.register_consumer(client, ConsumerData(group_name=group), notified=True)


def test_all_that_ask_after_one_change_get_one_text() -> None:
    """A thousand members ask within a second: a thousand texts would hold up all else."""
    members = Members(lambda group, told: None, lambda: 0)
    for number in range(3):
        join(members, FakeConnection(f"10.0.0.1:{number}"), f"c{number}")
    assert listed(members) is listed(members)


def test_every_change_is_seen_at_once() -> None:
    """Whatever changes: who comes, leaves, is lost, or says that it is another client."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    members = Members(lambda group, told: None, lambda: 0)
    connections = [FakeConnection(f"10.0.0.1:{number}") for number in range(4)]
    for _ in range(2_000):
        connection, group = rng.choice(connections), rng.choice("gh")
        what = rng.randrange(3)
        if what == 0:
            join(members, connection, f"c{rng.randrange(6)}", group)
        elif what == 1:
            members.unregister_consumer(connection, group)
        else:
            members.closed(connection)
        for name in "gh":
            consumers = members.group(name)
            there = [] if consumers is None else list(consumers.members.values())
            expected = list(dict.fromkeys(member.client.client_id for member in there))
            if expected:
                found = decode_body(ConsumerListReply, listed(members, name))
                assert found.consumer_id_list == expected
    for connection in connections:
        members.closed(connection)
    assert members.lists.kept_bytes == 0


def test_memory_is_bounded_by_bytes() -> None:
    """However many groups ask, however long the names of their clients are."""
    lists = ConsumerLists()
    names = ["c" * 1_000 + str(number) for number in range(500)]
    for number in range(30):
        assert len(lists.body(f"g{number}", names)) > 500_000
        assert 0 < lists.kept_bytes <= KEPT_BYTES_MAX
    lists.body("g29", names[:1])
    kept_bytes = lists.kept_bytes
    huge = names * 10
    assert decode_body(ConsumerListReply, lists.body("huge", huge)).consumer_id_list == huge
    assert lists.kept_bytes == kept_bytes
    for number in range(30):
        lists.forget(f"g{number}")
    assert lists.kept_bytes == 0
