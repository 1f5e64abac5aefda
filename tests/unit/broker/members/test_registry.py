"""Who is in which group, and when its members are told of a change."""

from collections.abc import Sequence
from typing import Any

import pytest
from support.stand_ins.fake_connection import FakeConnection

from aerobee.broker.features.sql92.feature import compiled
from aerobee.broker.members.group import Client
from aerobee.broker.members.registry import Members
from aerobee.broker.members.subscription_mismatches import differences
from aerobee.broker.members.subscriptions import SqlFilter
from aerobee.remoting.bodies import ConsumerData, SubscriptionData, SubscriptionGroupConfig
from aerobee.remoting.codes import PullSysFlag, ResponseCode
from aerobee.remoting.complaints import TOLD_MAX
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.pull import PullMessageRequest
from aerobee.remoting.message.tags import java_string_hash
from aerobee.remoting.net.connection import Connection

GROUP = SubscriptionGroupConfig(group_name="g")


class World:
    """Members with a clock that stands still and notices that are counted."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.notices: list[tuple[str, list[Connection]]] = []
        self.forbidden: set[tuple[str, str]] = set()
        self.members = Members(
            lambda group, connections: self.notices.append((group, connections)),
            lambda: self.now_ms,
            lambda group, topic: (group, topic) in self.forbidden,
        )

    def beat(
        self, connection: FakeConnection, client_id: str, *topics: str, **options: Any
    ) -> bool:
        """Register one consumer of group g with subscriptions `topic`, `topic=tags` or more."""
        version = options.pop("version", 1)
        data = ConsumerData(
            group_name=options.pop("group", "g"),
            message_model=options.pop("model", "CLUSTERING"),
            subscription_data_set=[subscription(topic, version) for topic in topics],
        )
        client = Client(connection, client_id, 0, 513)
        options.setdefault("notified", True)
        return self.members.register_consumer(client, data, **options)

    def told(self) -> list[tuple[str, Sequence[Connection]]]:
        """Return the notices since the last call."""
        notices, self.notices = self.notices, []
        return list(notices)


def subscription(text: str, version: int = 1, kind: str = "TAG") -> SubscriptionData:
    """Make a subscription from `topic` or `topic=tags`."""
    topic, _, tags = text.partition("=")
    return SubscriptionData(
        topic=topic, sub_string=tags or "*", sub_version=version, expression_type=kind
    )


def pull(**fields: Any) -> PullMessageRequest:
    """Make a pull of group g in topic t."""
    values: dict[str, Any] = {
        "consumer_group": "g",
        "topic": "t",
        "queue_id": 0,
        "queue_offset": 0,
        "max_msg_nums": 32,
        "sys_flag": 0,
        "commit_offset": 0,
        "suspend_timeout_millis": 0,
        "sub_version": 1,
    }
    return PullMessageRequest(**(values | fields))


def test_every_member_hears_of_a_join_and_of_a_leave() -> None:
    """Both sides of a change are told; the last one to go has nobody to tell."""
    world, first, second = World(), FakeConnection(), FakeConnection()
    assert world.beat(first, "c1", "t")
    assert world.told() == [("g", [first])]
    assert world.beat(second, "c2", "t")
    assert world.told() == [("g", [first, second])]
    assert world.members.client_ids("g") == ["c1", "c2"]
    world.members.closed(first)
    assert world.told() == [("g", [second])]
    world.members.unregister_consumer(second, "g")
    assert world.told() == []
    assert world.members.group("g") is None
    assert world.members.client_ids("g") == []


def test_a_repeated_heartbeat_tells_nobody() -> None:
    """Same client, same topics: nothing has changed, whatever the versions and expressions say."""
    world, connection = World(), FakeConnection()
    world.beat(connection, "c1", "t=a", version=5)
    world.told()
    assert not world.beat(connection, "c1", "t=a", version=5)
    assert not world.beat(connection, "c1", "t=b", version=6)
    assert not world.beat(connection, "c1", "t=c", version=4)
    assert world.told() == []
    known = world.members.subscription("g", "t")
    assert known is not None and known.sub_string == "b", "newer replaces, older is ignored"


def test_a_topic_added_or_removed_is_a_change() -> None:
    """Clients of one group with unequal topics overwrite each other, and everybody is told."""
    world, first, second = World(), FakeConnection(), FakeConnection()
    world.beat(first, "c1", "t", "%RETRY%g")
    world.told()
    assert world.beat(first, "c1", "t", "u", "%RETRY%g")
    assert world.told() == [("g", [first])]
    world.beat(second, "c2", "%RETRY%g")
    world.told()
    assert world.members.subscription("g", "u") is None
    assert world.members.groups_of_topic("t") == []


@pytest.mark.parametrize("options", [{"model": "BROADCASTING"}, {"notified": False}])
def test_groups_that_are_never_told(options: dict[str, Any]) -> None:
    """Broadcasting consumers share nothing; an administrator may silence a group."""
    world, first, second = World(), FakeConnection(), FakeConnection()
    world.beat(first, "c1", "t", **options)
    world.beat(second, "c2", "t", "u", **options)
    world.members.closed(first)
    world.now_ms += 200_000
    assert world.members.expire() == [second]
    assert world.told() == []


def test_silent_members_expire() -> None:
    """After 120 s without a heartbeat a member goes, its connection is to be closed."""
    world, silent, alive = World(), FakeConnection(), FakeConnection()
    client = Client(silent, "c1", 0, 513)
    world.beat(silent, "c1", "t")
    world.members.register_producer(client, "p")
    world.beat(alive, "c2", "t")
    world.now_ms += 100_000
    world.beat(alive, "c2", "t")
    world.told()
    world.now_ms += 20_000
    assert world.members.expire() == [], "the limit itself is not past the limit"
    world.now_ms += 1
    assert world.members.expire() == [silent]
    assert world.told() == [("g", [alive])]
    assert world.members.producers() == {}
    world.members.closed(silent)
    assert world.told() == [], "a close after the expiry is no second change"


def test_a_broker_that_was_stopped_hears_its_clients_first() -> None:
    """Their heartbeats wait in sockets; who is silent after they were read goes."""
    world = World()
    first, second = FakeConnection(), FakeConnection()
    for connection in (first, second):
        world.beat(connection, "c", "t")
    assert world.members.expire(interval_ms=10_000) == []
    world.now_ms += 200_000
    assert world.members.expire(interval_ms=10_000) == []
    world.beat(first, "c", "t")
    world.now_ms += 10_000
    assert world.members.expire(interval_ms=10_000) == [second]
    world.now_ms += 200_000
    assert world.members.expire(interval_ms=10_000) == []
    world.now_ms += 200_000
    assert world.members.expire(interval_ms=10_000) == [first], "late every time"


def test_a_client_that_reconnects_counts_once() -> None:
    """Its old connection may linger for two minutes; queues must not be kept for a ghost."""
    world, old, new = World(), FakeConnection("10.0.0.1:1"), FakeConnection("10.0.0.1:2")
    world.beat(old, "c1", "t")
    world.beat(new, "c1", "t")
    assert world.members.client_ids("g") == ["c1"]
    world.members.closed(old)
    assert world.members.client_ids("g") == ["c1"]


def test_one_connection_in_many_groups_leaves_all_of_them() -> None:
    """Closing forgets consumers and producers alike."""
    world, connection = World(), FakeConnection()
    for group in ("g", "h"):
        world.beat(connection, "c1", "t", group=group)
    client = Client(connection, "c1", 0, 513)
    world.members.register_producer(client, "p")
    world.members.register_producer(client, "q")
    world.members.unregister_producer(connection, "q")
    assert list(world.members.producers()) == ["p"]
    world.members.closed(connection)
    world.members.closed(connection)
    assert not list(world.members.groups()) and not world.members.producers()


def test_a_heartbeat_without_subscriptions_keeps_them() -> None:
    """Heartbeat V2: an unchanged client sends its fingerprint only."""
    world, connection = World(), FakeConnection()
    note = world.members.note_fingerprint
    assert note("g", 7, without_sub=True), "nothing is known here: send everything"
    assert not note("g", 7, without_sub=False)
    world.beat(connection, "c1", "t")
    assert not note("g", 7, without_sub=True)
    world.beat(connection, "c1", without_sub=True)
    assert world.members.subscription("g", "t") is not None
    assert note("g", 8, without_sub=False), "another client has other subscriptions"
    world.members.closed(connection)
    assert not note("g", 9, without_sub=False), "a group that is gone has no fingerprint"


def test_a_pull_without_its_own_expression_uses_the_groups() -> None:
    """Hashes come from the heartbeat: the client's own, else those of its expression."""
    world, connection = World(), FakeConnection()
    world.beat(connection, "c1", "t=a || b", "u")
    wanted = world.members.filter_for_pull(GROUP, pull())
    assert wanted == frozenset({java_string_hash("a"), java_string_hash("b")})
    assert world.members.filter_for_pull(GROUP, pull(topic="u")) is None
    given = SubscriptionData(topic="v", sub_string="x", code_set=[42], sub_version=1)
    client = Client(connection, "c1", 0, 513)
    data = ConsumerData(group_name="g", subscription_data_set=[given])
    world.members.register_consumer(client, data, notified=True)
    assert world.members.filter_for_pull(GROUP, pull(topic="v")) == frozenset({42})


def test_a_pull_may_bring_its_own_expression() -> None:
    """With the subscription flag no heartbeat is needed."""
    world, flag = World(), PullSysFlag.SUBSCRIPTION
    wanted = world.members.filter_for_pull(GROUP, pull(sys_flag=flag, subscription="a"))
    assert wanted == frozenset({java_string_hash("a")})
    assert world.members.filter_for_pull(GROUP, pull(sys_flag=flag, subscription="*")) is None


def test_a_newer_subscription_by_tags_gets_everything() -> None:
    """Its client picks by tags that are not known here yet: no message may be left out."""
    world, connection = World(), FakeConnection()
    world.beat(connection, "c1", "t=a")
    assert world.members.filter_for_pull(GROUP, pull(sub_version=2)) is None
    assert world.members.filter_for_pull(GROUP, pull()) == frozenset({java_string_hash("a")})


@pytest.mark.parametrize(
    ("fields", "group", "code"),
    [
        ({"consumer_group": "nobody"}, GROUP, ResponseCode.SUBSCRIPTION_NOT_EXIST),
        ({"topic": "other"}, GROUP, ResponseCode.SUBSCRIPTION_NOT_EXIST),
        (
            {"sub_version": 2, "expression_type": "SQL92"},
            GROUP,
            ResponseCode.SUBSCRIPTION_NOT_LATEST,
        ),
        ({"topic": "closed"}, GROUP, ResponseCode.NO_PERMISSION),
        ({"sys_flag": 4, "subscription": "||"}, GROUP, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
    ],
)
def test_pulls_that_are_refused(
    fields: dict[str, Any], group: SubscriptionGroupConfig, code: int
) -> None:
    """Each check with the code of PullMessageProcessor."""
    world, connection = World(), FakeConnection()
    world.forbidden.add(("g", "closed"))
    data = ConsumerData(
        group_name="g",
        subscription_data_set=[
            subscription("t"),
            subscription("closed"),
        ],
    )
    client = Client(connection, "c1", 0, 513)
    world.members.register_consumer(client, data, notified=True)
    with pytest.raises(RequestError) as refused:
        world.members.filter_for_pull(group, pull(**fields))
    assert refused.value.code == code


def test_an_expression_is_kept_until_it_changes() -> None:
    """Members of a group send the same one with ever higher versions: it is compiled once."""
    world, connection = World(), FakeConnection()
    client = Client(connection, "c1", 0, 513)

    def wanted(expression: str, version: int) -> object:
        known = SubscriptionData(
            topic="t", sub_string=expression, expression_type="SQL92", sub_version=version
        )
        data = ConsumerData(group_name="g", subscription_data_set=[known])
        world.members.register_consumer(client, data, notified=True)
        return world.members.filter_for_pull(GROUP, pull())

    first = wanted("a > 1", 1)
    assert isinstance(first, SqlFilter) and first.problem(compiled) is None
    assert wanted("a > 1", 2) is first
    other = wanted("a > 2", 3)
    assert isinstance(other, SqlFilter) and other is not first
    assert wanted("a > 1", 2) is other, "an older version changes nothing"


def test_a_pull_may_bring_an_expression() -> None:
    """The same text is the same filter."""
    world = World()
    fields = {"sys_flag": PullSysFlag.SUBSCRIPTION, "expression_type": "SQL92"}
    first = world.members.filter_for_pull(GROUP, pull(**fields, subscription="a > 1"))
    assert isinstance(first, SqlFilter)
    assert world.members.filter_for_pull(GROUP, pull(**fields, subscription="a > 1")) is first


def test_class_filters_are_the_clients_affair() -> None:
    """Such a subscription gets every message, as from RocketMQ's broker."""
    world, client = World(), Client(FakeConnection(), "c1", 0, 513)
    known = SubscriptionData(topic="t", sub_string="a", class_filter_mode=True, sub_version=1)
    data = ConsumerData(group_name="g", subscription_data_set=[known])
    world.members.register_consumer(client, data, notified=True)
    assert world.members.filter_for_pull(GROUP, pull()) is None


def test_broadcasting_can_be_forbidden() -> None:
    """The group's configuration decides, the refusal says which of its bits."""
    world, connection = World(), FakeConnection()
    world.beat(connection, "c1", "t", model="BROADCASTING")
    assert world.members.filter_for_pull(GROUP, pull()) is None
    strict = SubscriptionGroupConfig(group_name="g", consume_broadcast_enable=False)
    with pytest.raises(RequestError) as refused:
        world.members.filter_for_pull(strict, pull())
    assert refused.value.code == ResponseCode.NO_PERMISSION
    assert refused.value.ext == {"forbiddenType": "4"}


def test_a_heartbeat_of_separators_only_is_not_refused() -> None:
    """It wants nothing, like an expression of tags that nobody sends."""
    world, connection = World(), FakeConnection()
    world.beat(connection, "c1", "t=||")
    assert world.members.filter_for_pull(GROUP, pull()) == frozenset()


def test_members_that_subscribe_differently_are_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Once for each way in which they differ, not at each heartbeat."""
    world = World()
    one, two, three = (FakeConnection(f"10.0.0.{n}:1") for n in range(3))
    mismatches = world.members.mismatches
    world.beat(one, "c1", "t=a || b", "u", "%RETRY%g")
    world.beat(two, "c2", "t=a || b", "u")
    assert (len(mismatches), mismatches.warned) == (0, 0)
    for _ in range(3):
        world.beat(three, "c3", "t=a", "u", version=2)
    assert (len(mismatches), mismatches.warned) == (1, 1)
    assert "group=g topic=t subscriptions=TAG 'a || b' of c1,c2; TAG 'a' of c3" in caplog.text
    group = world.members.group("g")
    assert group is not None
    assert differences(group) == {"t": {"TAG 'a || b'": ["c1", "c2"], "TAG 'a'": ["c3"]}}
    world.beat(three, "c3", "t=a || b", version=3)
    assert (len(mismatches), mismatches.warned) == (1, 2)
    assert "topic=u subscriptions=TAG '*' of c1,c2; none of c3" in caplog.text
    world.members.closed(three)
    assert (len(mismatches), mismatches.warned) == (0, 2)


def test_a_member_that_always_wants_something_else_floods_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each way is counted, the first ones of a minute are told."""
    world = World()
    one, two = (FakeConnection(f"10.0.0.{n}:1") for n in range(2))
    world.beat(one, "c1", "t")
    for version in range(3 * TOLD_MAX):
        world.beat(two, "c2", f"t=a{version}", version=version)
    assert world.members.mismatches.warned == 3 * TOLD_MAX
    assert sum(each.startswith("subscriptions differ") for each in caplog.messages) == TOLD_MAX
