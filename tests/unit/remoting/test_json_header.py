"""The JSON header, as well-behaved and as odd clients write it."""

import json

import pytest
from support.golden.java import java_text

from aerobee.remoting.command import Codec, Command, Language
from aerobee.remoting.errors import ProtocolError
from aerobee.remoting.json_header import decode_header_bytes, encode_header_bytes


def test_writes_the_keys_that_java_writes() -> None:
    """The same keys in the same order; empty fields and a missing remark are left out."""
    full = Command(105, {"topic": "t"}, remark="r", opaque=0, version=0)
    assert list(json.loads(encode_header_bytes(full))) == list(
        json.loads(java_text("RemotingCommand"))
    )
    bare = Command(0, flag=1, opaque=2, version=0, language=Language.JAVA)
    assert encode_header_bytes(bare) == java_text("RemotingCommandBare").encode()


def test_reads_what_java_writes() -> None:
    """Control characters, other planes and line separators arrive as they were."""
    command = decode_header_bytes(java_text("RemotingCommand").encode(), b"body")
    assert command.ext == {"topic": "x\x0b\x01\x02\x7f\x85é😀/<\u2028"}
    assert (command.language, command.codec, command.body) == (Language.PYTHON, Codec.JSON, b"body")


def test_missing_keys_have_java_s_defaults() -> None:
    """An empty object is a request of code 0."""
    assert decode_header_bytes(b" {}\n") == Command(0, language=Language.JAVA, version=0)
    text = b'{"extFields":null,"remark":null,"unknown":[{"a":1}],"suspended":false}'
    assert decode_header_bytes(text) == Command(0, language=Language.JAVA, version=0)


def test_odd_clients_are_understood() -> None:
    """Numbers for strings (C++, Node), strings for numbers, ordinals for languages."""
    command = decode_header_bytes(
        b'{"code":"310","language":1,"opaque":"-7","flag":0,"version":null,"remark":"",'
        b'"extFields":{"e":3,"g":1700000000000,"k":false,"l":null,"i":"x","z":1.5,"o":{"a":[1]}}}'
    )
    assert (command.code, command.opaque, command.language) == (310, -7, Language.CPP)
    assert command.ext == {
        "e": "3",
        "g": "1700000000000",
        "k": "false",
        "i": "x",
        "z": "1.5",
        "o": '{"a":[1]}',
    }
    assert decode_header_bytes(b'{"language":"KLINGON"}').language == Language.OTHER
    assert decode_header_bytes(b'{"language":null,"code":"1"}').language == Language.OTHER


@pytest.mark.parametrize(
    "number", ["128", "9" * 5000, "\N{ARABIC-INDIC DIGIT ONE}", "\N{SUPERSCRIPT TWO}"]
)
def test_a_language_that_is_no_byte_is_none(number: str) -> None:
    """Whatever digits a peer sends, they are its name at most."""
    header = b'{"language":"%b","opaque":"7"}' % number.encode()
    assert decode_header_bytes(header) == Command(0, language=Language.OTHER, opaque=7, version=0)


def test_text_that_is_no_utf_8_is_mended_as_in_java() -> None:
    """A C++ client sends the bytes of a property as they are; the connection survives it."""
    for text in (b'{"extFields":{"i":"a\xffb"}}', b'{"code":"0","extFields":{"i":"a\xffb","e":1}}'):
        assert decode_header_bytes(text).ext["i"] == "a\ufffdb"
    assert decode_header_bytes(b'{"extFields":{"\xff":"1"}}').ext == {"\ufffd": "1"}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb"\ud800bad", "\ufffdbad"),
        (rb"bad\uDC00", "bad\ufffd"),
        (rb"\ud800\ud83d\ude00\ud800", "\ufffd😀\ufffd"),
        (rb"\ud800\n\"", '\ufffd\n"'),
        (rb"\\ud800\ud800", "\\ud800\ufffd"),
        (b"\xff\\udfff", "\ufffd\ufffd"),
    ],
)
def test_half_a_character_is_mended(written: bytes, read: str) -> None:
    """Half of a surrogate pair, in a value or a name, from a plain or an odd client, costs only
    itself: the connection goes on.
    """
    for rest in (b"", b',"e":1'):
        command = decode_header_bytes(b'{"code":1,"extFields":{"a":"%s"%s}}' % (written, rest))
        assert command.ext["a"] == read
    assert read in decode_header_bytes(b'{"extFields":{"%s":"1"}}' % written).ext
    assert decode_header_bytes(b'{"remark":"%s"}' % written).remark == read


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b'{"code":',
        b'{"code":[1]}',
        b'{"code":2147483648}',
        b'{"opaque":"99999999999"}',
        b'{"opaque":1e99}',
        b'{"opaque":"\xd9\xa1"}',
        b'{"flag":"--1"}',
        b'{"extFields":["a"]}',
        b'{"extFields":{"a":"\\ud80',
        b'{"x":' + b"[" * 100_000,
        b'{"code":"1","x":' + b'{"a":' * 100_000,
    ],
)
def test_hostile_headers_are_protocol_errors(data: bytes) -> None:
    """No JSON, no object, no int32, no text, no end: the same kind of error for all."""
    with pytest.raises(ProtocolError, match="header"):
        decode_header_bytes(data)
