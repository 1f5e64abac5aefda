"""Typed bodies, as Java, Go and C++ write them."""

import json
from typing import Any, cast

import msgspec
import pytest
from support.golden.java import java_bodies

from aerobee.remoting import bodies, fastjson
from aerobee.remoting.bodies import (
    BrokerData,
    ClientConnection,
    ConsumerConnection,
    ConsumerData,
    DataVersion,
    GroupList,
    HeartbeatData,
    KVTable,
    QueueBody,
    QueueData,
    ResetOffsetBody,
    SubscriptionData,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicRouteData,
    TopicStatsTable,
    decode_body,
    encode_body,
)
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError

OUR_NAMES = {
    "CheckClientRequestBody": "CheckClientConfig",
    "ConsumeMessageDirectlyResult": "ConsumeDirectlyResult",
    "ConsumerOffset": "ConsumerOffsets",
    "GetConsumerListByGroupResponseBody": "ConsumerListReply",
    "GetConsumerStatusBody": "ConsumerStatusBody",
    "HeartbeatDataV2": "HeartbeatData",
    "LockBatchRequestBody": "LockBatchBody",
    "LockBatchResponseBody": "LockBatchReply",
    "MessageQueue": "QueueBody",
    "TopicConfigAttr": "TopicConfig",
    "TopicRouteDataStrict": "TopicRouteData",
    "UnlockBatchRequestBody": "LockBatchBody",
}
COVERED = [name for name in java_bodies() if hasattr(bodies, OUR_NAMES.get(name, name))]
GROWN = ("mappingDataVersion", "topicQueueMappingDetailMap", "topicQueueMappingInfoMap")


@pytest.mark.parametrize("name", COVERED)
def test_java_s_bodies_survive_our_types(name: str) -> None:
    """What RocketMQ writes is read into a type and written again without a loss."""
    wire = java_bodies()[name]
    body = decode_body(getattr(bodies, OUR_NAMES.get(name, name)), wire)
    written: Any = fastjson.loads(encode_body(body, strict=False))
    if name == "TopicConfigSerializeWrapper":  # one type serves its subclass of 5.x too
        written = {key: value for key, value in written.items() if key not in GROWN}
    assert written == fastjson.loads(wire)


def test_most_of_the_golden_bodies_are_covered() -> None:
    """The list above is no accident of names."""
    assert len(COVERED) >= 32


def test_integer_keys_are_quoted_only_when_strict() -> None:
    """The two forms of a route reply."""
    route = TopicRouteData(
        queue_datas=[QueueData(broker_name="b", read_queue_nums=4, write_queue_nums=4, perm=6)],
        broker_datas=[BrokerData(cluster="c", broker_name="b", broker_addrs={0: "h:1", 1: "h:2"})],
    )
    assert b'{"0":"h:1","1":"h:2"}' in encode_body(route)
    assert b'{0:"h:1",1:"h:2"}' in encode_body(route, strict=False)
    for strict in (True, False):
        assert decode_body(TopicRouteData, encode_body(route, strict=strict)) == route
    assert "orderTopicConf" not in json.loads(encode_body(route))


def test_object_keys_are_queues() -> None:
    """Tables by queue travel as Java's readers want them."""
    queue = QueueBody(topic="t", broker_name="b", queue_id=0)
    reset = ResetOffsetBody(offset_table={queue: 7})
    wire = encode_body(reset, strict=False)
    assert wire == b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:7}}'
    assert decode_body(ResetOffsetBody, wire) == reset
    assert decode_body(TopicStatsTable, b'{"offsetTable":{}}') == TopicStatsTable()


def test_queues_sort_by_topic_broker_and_number() -> None:
    """All clients must see the same order, or they would share the queues out differently."""
    names = [("b", "a", 0), ("a", "b", 1), ("a", "b", 0), ("a", "a", 10), ("a", "a", 9)]
    queues = [QueueBody(topic=t, broker_name=b, queue_id=q) for t, b, q in names]
    assert [(q.topic, q.broker_name, q.queue_id) for q in sorted(queues)] == sorted(names)
    assert len({*queues, *queues}) == 5


def test_clients_in_other_languages_are_understood() -> None:
    """Null collections (Go), numbers in quotes and left-out keys (C++), enums as ordinals."""
    wire = (
        b'{"clientID":"c@1","producerDataSet":null,"consumerDataSet":[{"groupName":"g",'
        b'"consumeType":1,"messageModel":0,"consumeFromWhere":4,"subscriptionDataSet":[{"topic":"t"'
        b',"subString":"*","subVersion":"1700000000000","codeSet":["97"],"tagsSet":null}]}]}\n'
    )
    subscription = SubscriptionData(
        topic="t", sub_string="*", sub_version=1700000000000, code_set=[97]
    )
    assert decode_body(HeartbeatData, wire) == HeartbeatData(
        client_id="c@1",
        consumer_data_set=[
            ConsumerData(
                group_name="g",
                consume_type="CONSUME_PASSIVELY",
                message_model="BROADCASTING",
                consume_from_where="CONSUME_FROM_FIRST_OFFSET",
                subscription_data_set=[subscription],
            )
        ],
    )
    connection = b'{"connectionSet":[{"clientId":"c","clientAddr":"a:1","language":3}]}'
    assert decode_body(ConsumerConnection, connection).connection_set == [
        ClientConnection(client_id="c", client_addr="a:1", language="PYTHON")
    ]


def test_unset_values_have_java_s_defaults() -> None:
    """A body may leave out whatever it does not care for."""
    assert decode_body(TopicConfigSerializeWrapper, b"{}").data_version == DataVersion()
    config = decode_body(TopicConfig, b'{"topicName":"t"}')
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (16, 16, 6)
    first, second = KVTable(), KVTable()
    assert first.table is not second.table


def test_bodies_change_by_replacement() -> None:
    """They are values: the old one stays."""
    old = DataVersion(counter=1)
    assert msgspec.structs.replace(old, counter=2).counter == 2
    assert old.counter == 1


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "body is no HeartbeatData: no JSON"),
        (b"[]", "body is no HeartbeatData: Expected `object`, got `array`"),
        (b"{}", "missing required field `clientID`"),
        (b'{"clientID":1}', r"Expected `str`, got `int` - at `\$\.clientID`"),
        (b'{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeType":9}]}', "consumeType"),
        (b'{"clientID":"c","heartbeatFingerprint":99999999999}', "heartbeatFingerprint"),
        (b'{"clientID":"c","consumerDataSet":' + b"[" * 100_000, "recursion"),
        (b"[" + b"{}," * 500_001, "limit 500000"),
        (b"{" + b"0:0," * 200_001, "more than 200000 unquoted keys"),
        (b'{"clientID":"\xff"}', "HeartbeatData"),
    ],
    ids=range(10),
)
def test_a_bad_body_is_refused_with_a_reason(data: bytes, text: str) -> None:
    """The peer gets a reply that names the type and the place; the connection stays."""
    with pytest.raises(RequestError, match=text) as caught:
        decode_body(HeartbeatData, data)
    assert caught.value.code == ResponseCode.SYSTEM_ERROR


def test_all_is_sorted_and_complete() -> None:
    """Every public body of the family modules can be imported from the package."""
    assert sorted(bodies.__all__) == bodies.__all__
    assert decode_body(GroupList, memoryview(b'{"groupList":["g"]}')).group_list == ["g"]


def test_a_long_strict_body_does_not_pass_through_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand names hold a server for a fraction of a millisecond; nulls are left out."""
    one_by_one: list[object] = []
    slowly = fastjson.dumps

    def noted(value: object, *, strict: bool) -> bytes:
        one_by_one.append(value)
        return slowly(value, strict=strict)

    monkeypatch.setattr(fastjson, "dumps", noted)
    names = [f't{number}\u00e9"' for number in range(100)]
    for body in (
        KVTable(table=dict.fromkeys(names, "v")),
        TopicConfigSerializeWrapper(
            topic_config_table={name: TopicConfig(topic_name=name) for name in names},
            mapping_data_version=DataVersion(),
        ),
        TopicRouteData(
            broker_datas=[
                BrokerData(cluster="c", broker_name="b", broker_addrs={0: "h:1"}, zone_name="z")
            ],
            order_topic_conf="b:4",
        ),
        TopicList(topic_list=names),
    ):
        text = encode_body(body)
        assert not one_by_one
        assert text == slowly(bodies.plain(body), strict=True)
    assert encode_body(GroupList(group_list=["null", "a"])) == b'{"groupList":["null","a"]}'
    left_out = KVTable(table=cast(dict[str, str], {"kept": None}))
    assert encode_body(left_out) == b'{"table":{"kept":null}}'
    assert encode_body(TopicList(topic_list=["null"])) == b'{"topicList":["null"]}'
    assert len(one_by_one) == 3
