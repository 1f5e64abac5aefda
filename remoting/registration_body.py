"""The body of REGISTER_BROKER in its three forms: bare table, JSON, and compressed.

Compressed is zlib over: length + DataVersion as JSON, number of topics, for each one length +
"name readQueues writeQueues perm filterType attributes", length + filter servers as JSON and, since
5.0, number of static-topic mappings, for each one length + JSON; all numbers i32. Source:
RegisterBrokerBody.java and DefaultRequestProcessor.registerBroker.
"""

import struct
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from isal import isal_zlib

from aerobee.remoting import fastjson
from aerobee.remoting.bodies import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicQueueMappingInfo,
    decode_body,
    encode_body,
)
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import AerobeeError, CorruptRecord, RequestError
from aerobee.remoting.headers.registration import RegisterBrokerRequest
from aerobee.remoting.message.compression import inflate

VERSION_3_0_11: Final = 37  # since then the body is more than the table of topics
VERSION_5_0_0: Final = 413  # since then the compressed form ends with static-topic mappings
INFLATED_BYTES_MAX: Final = 64 * 1024 * 1024  # some 700,000 topics
ZLIB_MARK: Final = b"\x78"  # no JSON begins with it
_INT32: Final = struct.Struct(">i")


def encode_register_body(
    topics: Mapping[str, TopicConfig],
    data_version: DataVersion,
    mappings: Mapping[str, TopicQueueMappingInfo] = {},
    *,
    compressed: bool = False,
) -> bytes:
    """Write what a broker registers with, as a broker of version 5 does; `mappings` of its topics.

    The compressed form has no place for `order` and `topic_sys_flag`, so they do not travel in it.
    """
    if not compressed:
        wrapper = TopicConfigSerializeWrapper(
            topic_config_table=dict(topics),
            data_version=data_version,
            mapping_data_version=DataVersion(),
            topic_queue_mapping_info_map=dict(mappings),
        )
        # nothing in it is None, so msgspec may write it: 10,000 topics in 2 ms instead of 280
        return msgspec.json.encode(RegisterBrokerBody(topic_config_serialize_wrapper=wrapper))
    pieces = [_sized(encode_body(data_version)), _INT32.pack(len(topics))]
    pieces += [_sized(_config_text(config).encode()) for config in topics.values()]
    pieces += [_sized(b"[]"), _INT32.pack(len(mappings))]
    pieces += [_sized(encode_body(mapping)) for mapping in mappings.values()]
    data: bytes = isal_zlib.compress(b"".join(pieces))
    return data


def decode_register_body(
    header: RegisterBrokerRequest, version: int, data: bytes | memoryview
) -> RegisterBrokerBody:
    """Read what a broker of the given version (Command.version) registers with.

    Raises RequestError (SYSTEM_ERROR) for a wrong checksum, in RocketMQ's own words, and for a body
    that is damaged or beyond the limits.
    """
    data = bytes(data)
    if header.body_crc32 and header.body_crc32 != isal_zlib.crc32(data) & 0x7FFF_FFFF:
        raise RequestError(ResponseCode.SYSTEM_ERROR, "crc32 not match")
    if not data:
        return RegisterBrokerBody()
    if version < VERSION_3_0_11:
        return RegisterBrokerBody(
            topic_config_serialize_wrapper=decode_body(TopicConfigSerializeWrapper, data)
        )
    # With compressedRegister=true RocketMQ 5 sends the compressed form and says that it is not
    # (BrokerOuterAPI.registerBrokerAll; its own nameserver refuses it), so the body has to tell.
    if not header.compressed and not data.startswith(ZLIB_MARK):
        return decode_body(RegisterBrokerBody, data)
    return _decode_compressed(data, with_mappings=version >= VERSION_5_0_0)


def _decode_compressed(data: bytes, *, with_mappings: bool) -> RegisterBrokerBody:
    try:
        reader = _Reader(inflate(data, INFLATED_BYTES_MAX))
    except CorruptRecord as error:
        raise _damaged(str(error)) from None
    data_version = decode_body(DataVersion, reader.sized())
    topics: dict[str, TopicConfig] = {}
    for _ in range(reader.count()):
        config = _parse_config(reader.sized())
        topics[config.topic_name] = config
    filter_servers = reader.sized()
    mappings: dict[str, Any] = {}
    if with_mappings:
        for _ in range(reader.count()):
            mapping = _json(reader.sized(), dict[str, Any])
            mappings[str(mapping.get("topic"))] = mapping
    return RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
            topic_config_table=topics,
            data_version=data_version,
            topic_queue_mapping_info_map=mappings,
        ),
        filter_server_list=_json(filter_servers, list[str]),
    )


def _config_text(config: TopicConfig) -> str:
    attributes = fastjson.dumps(config.attributes, strict=True).decode()
    return (
        f"{config.topic_name} {config.read_queue_nums} {config.write_queue_nums} {config.perm} "
        f"{config.topic_filter_type} {attributes}"
    )


def _parse_config(text: bytes) -> TopicConfig:
    """Read one topic as TopicConfig.decode does; brokers of version 4 write no attributes."""
    try:
        name, read_queues, write_queues, perm, filter_type, *rest = text.decode().split(" ", 5)
        fields = {
            "topicName": name,
            "readQueueNums": read_queues,
            "writeQueueNums": write_queues,
            "perm": perm,
            "topicFilterType": filter_type,
        }
        config = msgspec.convert(fields, TopicConfig, strict=False)
    except ValueError as error:  # also what msgspec and UnicodeDecodeError derive from
        raise _damaged(f"topic {text[:200]!r}: {error}") from None
    if rest and rest[0] not in ("", "{}", "null"):
        attributes = _json(rest[0].encode(), dict[str, str])
        config = msgspec.structs.replace(config, attributes=attributes)
    return config


class _Reader:
    """Takes length-prefixed pieces off the inflated body."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def sized(self) -> bytes:
        size = self._int()
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise _damaged(f"piece of {size} bytes at byte {self._at} of {len(self._data)}")
        piece = self._data[self._at : end]
        self._at = end
        return piece

    def count(self) -> int:
        count = self._int()
        if not 0 <= count <= (len(self._data) - self._at) // _INT32.size:
            raise _damaged(f"{count} entries in the {len(self._data) - self._at} bytes that follow")
        return count

    def _int(self) -> int:
        try:
            (value,) = _INT32.unpack_from(self._data, self._at)
        except struct.error:
            raise _damaged(f"cut off at byte {self._at}") from None
        self._at += _INT32.size
        return int(value)


def _json(data: bytes, json_type: Any) -> Any:
    try:
        return msgspec.convert(fastjson.loads(data), json_type, strict=False)
    except (AerobeeError, ValueError) as error:
        raise _damaged(str(error)) from None


def _sized(data: bytes) -> bytes:
    return _INT32.pack(len(data)) + data


def _damaged(what: str) -> RequestError:
    return RequestError(ResponseCode.SYSTEM_ERROR, f"registration body is damaged: {what}")
