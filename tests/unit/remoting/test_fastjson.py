"""JSON with fastjson's keys."""

import json
import time

import pytest
from support.golden.java import java_bodies

from aerobee.remoting.errors import ProtocolError
from aerobee.remoting.fastjson import JsonObjectKey, dumps, loads, standardise

QUEUE = JsonObjectKey({"brokerName": "b", "queueId": 1, "topic": "t"})


@pytest.mark.parametrize("name", java_bodies())
def test_reads_whatever_java_wrote_and_writes_it_again(name: str) -> None:
    """Reading, writing and reading gives the same values for every body of RocketMQ."""
    value = loads(java_bodies()[name])
    assert loads(dumps(value, strict=False)) == value
    json.loads(dumps(value, strict=True))


def test_the_two_odd_kinds_of_keys() -> None:
    """Bare integers come out as text, objects as keys that can be looked up."""
    assert loads(b'{"a":{0:"x", -12 : "y"},"b":[{1:{2:3}}]}') == {
        "a": {"0": "x", "-12": "y"},
        "b": [{"1": {"2": 3}}],
    }
    text = b'{ "t" : { {"brokerName":"b","queueId":1,"topic":"t"} : {"m":7} , {}:1 }}'
    assert loads(text) == {"t": {QUEUE: {"m": 7}, JsonObjectKey({}): 1}}


def test_other_bare_keys_of_fastjson_1() -> None:
    """It quotes neither booleans nor floats nor null where they are keys."""
    assert loads(b'{1:"x",true:1,null:2,"c":3,1.5:4,-3:5}') == {
        "1": "x",
        "true": 1,
        "null": 2,
        "c": 3,
        "1.5": 4,
        "-3": 5,
    }


def test_strings_are_left_alone() -> None:
    """What looks like a key inside a string stays what it is."""
    value = {'{0:"a"}': '{{"a":1}:2}', "b": "\\", "c": '",1:', "d": "\0{}", "e": [1, 2]}
    odd = b"{0:1," + json.dumps(value).encode()[1:]
    assert loads(odd) == {"0": 1, **value}
    assert standardise(json.dumps(value).encode()) == json.dumps(value).encode()


def test_braces_inside_the_strings_of_an_object_key() -> None:
    """A topic may hold any character as far as the parser is concerned."""
    key = JsonObjectKey({"topic": '}:{"', "n": 1})
    assert loads(dumps({key: [1]}, strict=False)) == {key: [1]}


def test_writes_both_kinds_of_json() -> None:
    """Loose as fastjson does it, strict for everybody else."""
    value = {"a": {0: "x", -1: [1, None, True, 1.5, "é"]}, "b": {QUEUE: 7}, "c": ()}
    assert (
        dumps(value, strict=False)
        == (
            '{"a":{0:"x",-1:[1,null,true,1.5,"é"]},'
            '"b":{{"brokerName":"b","queueId":1,"topic":"t"}:7},"c":[]}'
        ).encode()
    )
    assert json.loads(dumps(value, strict=True)) == {
        "a": {"0": "x", "-1": [1, None, True, 1.5, "é"]},
        "b": {'{"brokerName":"b","queueId":1,"topic":"t"}': 7},
        "c": [],
    }


def test_object_keys_are_values() -> None:
    """They compare and hash by content, and behave as mappings."""
    same = JsonObjectKey({"topic": "t", "queueId": 1, "brokerName": "b"})
    assert (QUEUE, hash(QUEUE)) == (same, hash(same))
    assert {QUEUE: 1}[same] == 1
    assert dict(QUEUE) == {"brokerName": "b", "queueId": 1, "topic": "t"}
    assert "queueId=1" not in repr(QUEUE) and "'queueId': 1" in repr(QUEUE)
    assert len(QUEUE) == 3
    with pytest.raises(KeyError):
        QUEUE["offset"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"{0:",
        b'{"a":1}}',
        b'{0:"a',
        b'{"a:1}',
        b"{{}}",
        b"{{0:1}:2}",
        b'{{"a":{}}:1}',
        b'{{"a":[1]}:1}',
        b"{[1]:2}",
        b"{a:1}",
        b"{'a':1}",
        b'{"\xff":1}',
        b'{{"\xff":1}:1,,}',
        b'{0:1,"a":"\\x41"}',
        b"[" * 100_000,
        b"{0:" * 100_000,
        b'{"a":' * 100_000,
        b"{" * 100_000,
        b"{0:[" + b"[" * 900 + b"]" * 900 + b"}",
    ],
    ids=range(21),
)
def test_anything_else_is_a_protocol_error(data: bytes) -> None:
    """Cut off, unquoted, nested in a key, nested too deep."""
    with pytest.raises(ProtocolError, match="no JSON"):
        loads(data)


def test_texts_that_would_fill_memory_are_refused() -> None:
    """The number of objects, arrays and odd keys has a limit."""
    with pytest.raises(ProtocolError, match=r"500001 objects and arrays, limit 500000"):
        loads(b"[" + b"[]," * 500_000)
    with pytest.raises(ProtocolError, match="more than 3 unquoted keys"):
        loads(b"{0:1,1:2,2:3,3:4}", odd_keys_max=3)


@pytest.mark.parametrize(
    "piece", [b"{0:", b'{"a":', b"{{", b'"', b'\\"', b'{"', b",", b"{ ", b"0:", b"{0", b"}:"]
)
def test_time_grows_with_length_only(piece: bytes) -> None:
    """No text makes the scanner look at the same bytes again and again."""

    def seconds(count: int) -> float:
        data = b"{" + piece * count
        started = time.process_time()
        standardise(data)
        return time.process_time() - started

    short = min(seconds(10_000) for _ in range(3))
    long = min(seconds(80_000) for _ in range(3))
    assert long < 40 * short + 0.05  # 8 when linear, 64 when quadratic
