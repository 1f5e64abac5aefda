"""Every code that is served needs something, and looks where its processor looks."""

from pathlib import Path
from typing import Final

import pytest
from support.code_names import REQUEST_NAMES
from support.servers.brokers import running_broker

from aerobee.broker.features.access.needs import (
    CREATE,
    DELETE,
    NEEDS,
    PUB,
    SUB,
    UPDATE,
    needs_of,
)
from aerobee.broker.processors.families import FAMILIES, SERVED_BY_CONNECTION
from aerobee.namesrv.processors import FAMILIES as NAMESRV_FAMILIES
from aerobee.remoting.bodies import (
    ConsumerData,
    CreateTopicListBody,
    HeartbeatData,
    LockBatchBody,
    QueryAssignmentBody,
    QueueBody,
    RequestModeBody,
    SubscriptionData,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    TopicConfig,
    encode_body,
)
from aerobee.remoting.codes import RequestCode as Code
from aerobee.remoting.command import Command
from aerobee.remoting.headers.pull import PullMessageRequest
from aerobee.remoting.headers.typed import Header
from aerobee.remoting.net.access.changes import CHANGES

FREE: Final = {Code.CHECK_CLIENT_CONFIG, Code.VIEW_MESSAGE_BY_ID}
"""Whoever has signed may: 46 tells nothing, of 33 the record decides."""
OPTIONAL: Final = {Code.UNREGISTER_CLIENT, Code.END_TRANSACTION}
"""What these do not name they do not touch: a producer leaves, an old client ends."""
QUEUE: Final = QueueBody(topic="t", broker_name="b", queue_id=0)
BODIES: Final = {
    Code.HEART_BEAT: HeartbeatData(
        client_id="c",
        consumer_data_set=[
            ConsumerData(
                group_name="g",
                subscription_data_set=[
                    SubscriptionData(topic="t", sub_string="*"),
                    SubscriptionData(topic="%RETRY%g", sub_string="*"),
                ],
            )
        ],
    ),
    Code.LOCK_BATCH_MQ: LockBatchBody(consumer_group="g", client_id="c", mq_set=[QUEUE]),
    Code.UNLOCK_BATCH_MQ: LockBatchBody(consumer_group="g", client_id="c", mq_set=[QUEUE]),
    Code.QUERY_ASSIGNMENT: QueryAssignmentBody(topic="t", consumer_group="g", client_id="c"),
    Code.SET_MESSAGE_REQUEST_MODE: RequestModeBody(topic="t", consumer_group="g"),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: SubscriptionGroupConfig(group_name="g"),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: SubscriptionGroupList(
        group_config_list=[SubscriptionGroupConfig(group_name="g")]
    ),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: CreateTopicListBody(
        topic_config_list=[TopicConfig(topic_name="t")]
    ),
}


class Looked(dict[str, str]):
    """Header fields that note which of them somebody looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        """Every field has its own name for a value."""
        self.names.add(name)
        return f"of {name}"


@pytest.fixture
async def served(tmp_path: Path) -> dict[int, type[Header]]:
    """The header type of each code that a broker serves with everything on."""
    async with running_broker(
        tmp_path, authenticationEnabled="true", enableLmq="true", enableMultiDispatch="true"
    ) as broker:
        features = [room.answers for room in broker.rooms if room.answers is not None]
    codes = {
        code: route[0] for each in (*FAMILIES, *features) for code, route in each.table.items()
    }
    return codes | dict.fromkeys(SERVED_BY_CONNECTION, PullMessageRequest)


def body_of(code: int) -> bytes:
    """A body that names `t` and `g`."""
    return encode_body(BODIES[code]) if code in BODIES else b""


def asked(code: int, ext: dict[str, str]) -> list[str]:
    """What a request needs, in words."""
    body = body_of(code)
    return [
        f"{need.resource} {'|'.join(action.value for action in need.actions)}"
        for need in needs_of("c")(Command(code, ext, body))
    ]


async def test_every_served_code_needs_something(served: dict[int, type[Header]]) -> None:
    """No more and no less is in the table than is served; anything else needs to change all."""
    names = {REQUEST_NAMES[code] for code in set(served) ^ set(NEEDS)}
    assert not names
    for code in served:
        assert bool(asked(code, Looked())) == (code not in FREE), REQUEST_NAMES[code]
    assert asked(99_999, {}) == ["Cluster:c Update"]


async def test_needs_look_at_fields_that_processors_read(served: dict[int, type[Header]]) -> None:
    """One that they read under another name would pass unseen."""
    for code, header in served.items():
        ext = Looked()
        asked(code, ext)
        assert ext.names <= set(header.__struct_encode_fields__), REQUEST_NAMES[code]


async def test_what_names_nothing_needs_the_cluster(served: dict[int, type[Header]]) -> None:
    """No request gets by for want of a field."""
    for code in set(served) - FREE - OPTIONAL:
        assert asked(code, {}), REQUEST_NAMES[code]


async def test_what_changes_is_a_change(served: dict[int, type[Header]]) -> None:
    """Whatever needs a right to create, update or delete is noted, but what members do."""
    changing, members = (CREATE, UPDATE, DELETE), (PUB, SUB)
    found = {
        code
        for code in served
        for need in needs_of("c")(Command(code, Looked(), body_of(code)))
        if not set(need.actions).isdisjoint(changing) and set(need.actions).isdisjoint(members)
    }
    assert {REQUEST_NAMES[code] for code in found - set(CHANGES)} == set()
    of_nameservers = {code for family in NAMESRV_FAMILIES for code in family.table}
    assert {REQUEST_NAMES[code] for code in set(CHANGES) - found - of_nameservers} == set()
    assert {code: name for code, (name, _) in CHANGES.items()} == {
        code: REQUEST_NAMES[code] for code in CHANGES
    }


@pytest.mark.parametrize(
    ("code", "ext", "needs"),
    [
        (Code.SEND_MESSAGE, {"topic": "t", "producerGroup": "p"}, ["Topic:t Pub"]),
        (Code.SEND_MESSAGE_V2, {"b": "t", "a": "p"}, ["Topic:t Pub"]),
        (Code.SEND_MESSAGE_V2, {"b": "%RETRY%g", "a": "mine"}, ["Group:g Sub"]),
        (Code.PULL_MESSAGE, {"topic": "t", "consumerGroup": "g"}, ["Topic:t Sub", "Group:g Sub"]),
        (Code.PULL_MESSAGE, {"topic": "%RETRY%g", "consumerGroup": "h"},
         ["Group:g Sub", "Group:h Sub"]),
        (Code.PULL_MESSAGE, {"topic": "%DLQ%g", "consumerGroup": "h"},
         ["Topic:%DLQ%g Sub", "Group:h Sub"]),
        (Code.HEART_BEAT, {}, ["Group:g Sub", "Topic:t Sub", "Group:g Sub"]),
        (Code.LOCK_BATCH_MQ, {}, ["Group:g Sub", "Topic:t Sub"]),
        (Code.QUERY_CONSUMER_OFFSET, {"topic": "t", "consumerGroup": "g"},
         ["Topic:t Sub|Get", "Group:g Sub|Get"]),
        (Code.UPDATE_CONSUMER_OFFSET, {"topic": "t", "consumerGroup": "g"},
         ["Topic:t Sub|Update", "Group:g Sub|Update"]),
        (Code.END_TRANSACTION, {"producerGroup": "p"}, []),
        (Code.UNREGISTER_CLIENT, {"producerGroup": "p"}, []),
        (Code.UNREGISTER_CLIENT, {"consumerGroup": "g"}, ["Group:g Sub"]),
        (Code.UPDATE_AND_CREATE_TOPIC, {"topic": "t"}, ["Topic:t Create"]),
        (Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, ["Group:g Update"]),
        (Code.GET_CONSUME_STATS, {"consumerGroup": "g"}, ["Cluster:c Get", "Group:g Get"]),
        (Code.UPDATE_BROKER_CONFIG, {}, ["Cluster:c Update"]),
        (Code.AUTH_LIST_USER, {"filter": "x"}, ["Cluster:c Get"]),
    ],
)  # fmt: skip
def test_what_is_needed(code: int, ext: dict[str, str], needs: list[str]) -> None:
    """As RocketMQ 5.5.0 asks, and where it asks nothing, what fits."""
    assert asked(code, ext) == needs
