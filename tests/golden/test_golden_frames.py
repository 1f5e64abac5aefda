"""Frames of real clients and servers: our codecs read them right and write them back the same."""

import json
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from support.golden.frames import GoldenFrame, decode_header, load_frame

from aerobee.remoting import bodies
from aerobee.remoting.bodies import Body, decode_body, encode_body
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Codec, Command, language_name
from aerobee.remoting.frame import FrameReader, encode_frame
from aerobee.remoting.headers import (
    groups,
    heartbeat,
    kv,
    offsets,
    pull,
    query,
    registration,
    route,
    send,
    topics,
)
from aerobee.remoting.headers.typed import Header, encode_header
from aerobee.remoting.headers.typed import decode_header as typed_header
from aerobee.remoting.message.batch import split_batch
from aerobee.remoting.message.record import encode_record, iter_records
from aerobee.remoting.registration_body import decode_register_body, encode_register_body

FRAMES: Final = Path(__file__).parent / "frames"
FILES: Final = sorted(FRAMES.rglob("*.hex"))
CODECS: Final = {"JSON": Codec.JSON, "ROCKETMQ": Codec.ROCKETMQ}

REQUEST_HEADERS: Final[dict[int, type[Header]]] = {
    RequestCode.SEND_MESSAGE: send.SendMessageRequest,
    RequestCode.SEND_MESSAGE_V2: send.SendMessageRequestV2,
    RequestCode.SEND_BATCH_MESSAGE: send.SendMessageRequestV2,
    RequestCode.PULL_MESSAGE: pull.PullMessageRequest,
    RequestCode.LITE_PULL_MESSAGE: pull.PullMessageRequest,
    RequestCode.QUERY_CONSUMER_OFFSET: offsets.QueryConsumerOffsetRequest,
    RequestCode.UPDATE_CONSUMER_OFFSET: offsets.UpdateConsumerOffsetRequest,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: offsets.SearchOffsetRequest,
    RequestCode.GET_MAX_OFFSET: offsets.MaxOffsetRequest,
    RequestCode.GET_MIN_OFFSET: offsets.MinOffsetRequest,
    RequestCode.GET_EARLIEST_MSG_STORETIME: offsets.EarliestStoreTimeRequest,
    RequestCode.VIEW_MESSAGE_BY_ID: query.ViewMessageRequest,
    RequestCode.UNREGISTER_CLIENT: heartbeat.UnregisterClientRequest,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: heartbeat.ConsumerListRequest,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: heartbeat.NotifyConsumerIdsChangedRequest,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: route.RouteInfoRequest,
    RequestCode.REGISTER_BROKER: registration.RegisterBrokerRequest,
    RequestCode.UNREGISTER_BROKER: registration.UnregisterBrokerRequest,
    RequestCode.QUERY_DATA_VERSION: registration.QueryDataVersionRequest,
    RequestCode.UPDATE_AND_CREATE_TOPIC: topics.CreateTopicRequest,
    RequestCode.DELETE_TOPIC_IN_BROKER: topics.DeleteTopicRequest,
    RequestCode.GET_TOPIC_CONFIG: topics.TopicRequest,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: groups.GroupRequest,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: groups.DeleteGroupRequest,
    RequestCode.PUT_KV_CONFIG: kv.PutKVConfigRequest,
    RequestCode.GET_KV_CONFIG: kv.GetKVConfigRequest,
    RequestCode.DELETE_KV_CONFIG: kv.DeleteKVConfigRequest,
    RequestCode.GET_KVLIST_BY_NAMESPACE: kv.KVListRequest,
}
REPLY_HEADERS: Final[dict[str, type[Header]]] = {
    "SEND_MESSAGE": send.SendMessageReply,
    "SEND_MESSAGE_V2": send.SendMessageReply,
    "SEND_BATCH_MESSAGE": send.SendMessageReply,
    "PULL_MESSAGE": pull.PullMessageReply,
    "LITE_PULL_MESSAGE": pull.PullMessageReply,
    "QUERY_CONSUMER_OFFSET": offsets.OffsetReply,
    "GET_MAX_OFFSET": offsets.OffsetReply,
    "GET_MIN_OFFSET": offsets.OffsetReply,
    "SEARCH_OFFSET_BY_TIMESTAMP": offsets.OffsetReply,
    "GET_EARLIEST_MSG_STORETIME": offsets.TimestampReply,
    "QUERY_DATA_VERSION": registration.QueryDataVersionReply,
    "REGISTER_BROKER": registration.RegisterBrokerReply,
    "HEART_BEAT": heartbeat.HeartbeatReply,
    "GET_KV_CONFIG": kv.GetKVConfigReply,
}
BODIES: Final[dict[str, type[Body]]] = {
    "HEART_BEAT-request": bodies.HeartbeatData,
    "GET_ROUTEINFO_BY_TOPIC-reply-0": bodies.TopicRouteData,
    "GET_CONSUMER_LIST_BY_GROUP-reply-0": bodies.ConsumerListReply,
    "GET_BROKER_CLUSTER_INFO-reply-0": bodies.ClusterInfo,
    "GET_BROKER_RUNTIME_INFO-reply-0": bodies.KVTable,
    "GET_KVLIST_BY_NAMESPACE-reply-0": bodies.KVTable,
    "GET_TOPIC_CONFIG-reply-0": bodies.TopicConfig,
    "GET_SUBSCRIPTIONGROUP_CONFIG-reply-0": bodies.SubscriptionGroupConfig,
    "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP-request": bodies.SubscriptionGroupConfig,
    "QUERY_DATA_VERSION-request": bodies.DataVersion,
    "QUERY_DATA_VERSION-reply-0": bodies.DataVersion,
}
NOT_OURS: Final = {
    *("ns", "nsd", "bname", "oway", "lo"),  # what any RPC of 5.x may carry
    "ReqT",  # a stream client's mark (StreamTypeRPCHook)
    *("AccessKey", "OnsChannel", "Signature"),  # the C++ client always signs
    *("MSG_REGION", "TRACE_ON"),  # raw fields beside the typed ones of a send's reply
}
ENUMERATIONS: Final = {"consumeFromWhere", "consumeType", "messageModel"}
C_BOOLEANS: Final = {"0": "false", "1": "true"}  # how the C++ client writes unitMode and batch
MUST_BE_THERE: Final = {  # a capture that lost a scenario must not look like a passing test
    "java-5.5.0-produces/SEND_MESSAGE_V2-request",
    "java-5.5.0-produces/SEND_BATCH_MESSAGE-request",
    "java-5.5.0-binary-produces/SEND_MESSAGE_V2-request",
    "java-5.5.0-consumes/PULL_MESSAGE-reply-0",
    "java-5.5.0-consumes/NOTIFY_CONSUMER_IDS_CHANGED-request",
    "java-5.5.0-lite/LITE_PULL_MESSAGE-request",
    "java-4.9.8-v1/SEND_MESSAGE-request",
    "broker-registers/REGISTER_BROKER-request",
    "broker-registers/QUERY_DATA_VERSION-request",
    "broker-registers-compressed/REGISTER_BROKER-request",
}

each_file = pytest.mark.parametrize(
    "file", FILES, ids=[f"{file.parent.name}/{file.stem}" for file in FILES]
)


def read(golden: GoldenFrame) -> Command:
    """Decode a frame with our codec."""
    reader = FrameReader()
    reader.feed(golden.frame)
    (command,) = reader
    return command


def files_of(*stems: str) -> pytest.MarkDecorator:
    """Parametrise over the recorded frames of these kinds."""
    chosen = [file for file in FILES if file.stem in stems]
    names = [f"{file.parent.name}/{file.stem}" for file in chosen]
    return pytest.mark.parametrize("file", chosen, ids=names)


def test_every_scenario_is_recorded() -> None:
    """The frames that the other tests live on are there."""
    assert {f"{file.parent.name}/{file.stem}" for file in FILES} >= MUST_BE_THERE


@each_file
def test_header_is_read_as_recorded(file: Path) -> None:
    """Every field of the header is what the independent decoder found."""
    golden = load_frame(file)
    command = read(golden)
    assert command.codec == CODECS[golden.header["codec"]]
    assert command.code == golden.header["code"]
    assert command.opaque == golden.header["opaque"]
    assert command.flag == golden.header["flag"]
    assert command.version == golden.header["version"]
    assert language_name(command.language) == golden.header["language"]
    assert command.remark == golden.header["remark"]
    assert {key: value for key, value in command.ext.items() if value} == {
        key: value for key, value in golden.header["ext"].items() if value
    }
    assert bytes(command.body) == golden.body


@each_file
def test_frame_is_written_back(file: Path) -> None:
    """Our frame says the same to the independent decoder; a binary header has the same bytes."""
    golden = load_frame(file)
    written = encode_frame(read(golden))
    if golden.header["codec"] == "ROCKETMQ":
        assert written == golden.frame
        return
    again = decode_header(written)
    expected = dict(golden.header)
    assert again == expected
    assert written.endswith(golden.body)


@each_file
def test_typed_header_takes_every_field(file: Path) -> None:
    """What a typed header reads and writes back is what was there, but for fields of 5.x RPCs."""
    golden = load_frame(file)
    name, kind = file.stem.split("-", 1)
    header_type: type[Header] | None
    if kind == "request":
        header_type = REQUEST_HEADERS.get(golden.header["code"])
    else:
        header_type = REPLY_HEADERS.get(name) if kind == "reply-0" else None
    if header_type is None:
        return  # no header fields, or a refusal
    ext = golden.header["ext"]
    written = encode_header(typed_header(header_type, ext))
    different = {key for key, value in written.items() if ext.get(key) != value}
    assert all(C_BOOLEANS.get(ext[key]) == written[key] for key in different), different
    dropped = set(ext) - set(written)
    assert dropped <= NOT_OURS, dropped


@files_of(*BODIES)
def test_body_is_read_and_written_back(file: Path) -> None:
    """A JSON body survives our types, with nothing lost but nulls."""
    data = load_frame(file).body
    if not data:
        return  # the nameserver's answer to a version of a broker that it does not know
    body = decode_body(BODIES[file.stem], data)
    assert decode_body(BODIES[file.stem], encode_body(body)) == body
    try:
        theirs = json.loads(data)
    except ValueError:
        return  # unquoted keys: the round trip above has to do
    ours = json.loads(encode_body(body))
    assert lost(theirs, ours) == []


def lost(theirs: Any, ours: Any, path: str = "") -> list[str]:
    """Return the places where `ours` lacks or changes what `theirs` has; nulls may go.

    The Go client writes numbers as strings, the C++ client enumerations as numbers.
    """
    if isinstance(theirs, dict) and isinstance(ours, dict):
        members = [(key, item) for key, item in theirs.items() if item is not None]
        return [
            place for key, item in members for place in lost(item, ours.get(key), f"{path}.{key}")
        ]
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        pairs = zip(theirs, ours, strict=True)
        return [place for one, other in pairs for place in lost(one, other, f"{path}[]")]
    if theirs == ours or str(theirs) == str(ours):
        return []
    if type(theirs) is int and path.split(".")[-1] in ENUMERATIONS:
        return []
    return [f"{path}: {theirs!r} became {ours!r}"]


@files_of("PULL_MESSAGE-reply-0", "LITE_PULL_MESSAGE-reply-0", "VIEW_MESSAGE_BY_ID-reply-0")
def test_records_are_read_and_written_back(file: Path) -> None:
    """Each record of a reply decodes, and encodes to the same bytes."""
    body = load_frame(file).body
    records = list(iter_records(body))
    assert records
    assert all(record.topic for record in records)
    assert b"".join(encode_record(record) for record in records) == body


@files_of("SEND_BATCH_MESSAGE-request")
def test_batches_are_taken_apart(file: Path) -> None:
    """A batch of the Java and the Go client holds the three messages that were sent."""
    messages = list(split_batch(load_frame(file).body))
    assert len(messages) == 3
    assert bytes(messages[0].body) == "plain é 中 🐝".encode()
    assert bytes(messages[2].body) == b"large " + b"x" * 5000


@files_of("REGISTER_BROKER-request")
def test_registrations_are_read(file: Path) -> None:
    """A broker's registration, plain or compressed, lists its topics, and survives our encoder.

    RocketMQ's broker compresses the body and says `compressed=false` (BrokerOuterAPI), so that its
    own nameserver refuses it; ours looks at the body.
    """
    golden = load_frame(file)
    header = typed_header(registration.RegisterBrokerRequest, golden.header["ext"])
    version = golden.header["version"]
    body = decode_register_body(header, version, golden.body)
    wrapper = body.topic_config_serialize_wrapper
    assert wrapper.topic_config_table["TBW102"].read_queue_nums == 8
    compressed = not golden.body.startswith(b"{")
    assert compressed == file.parent.name.endswith("compressed")
    again = encode_register_body(
        wrapper.topic_config_table, wrapper.data_version, compressed=compressed
    )
    unchecked = msgspec.structs.replace(header, body_crc32=0)
    second = decode_register_body(unchecked, version, again).topic_config_serialize_wrapper
    assert second.topic_config_table == wrapper.topic_config_table
    assert second.data_version == wrapper.data_version
