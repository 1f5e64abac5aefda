"""Options of reads and writes over the network, and what is said of wrong ones."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from aerobee.spark.errors import OptionError
from aerobee.spark.options.address import NetworkAddress
from aerobee.spark.options.query import parse_options
from aerobee.spark.sinks.options import parse_sink_options
from aerobee.spark.sinks.rows import ROW_COLUMNS, check_rows
from aerobee.spark.sinks.writer import sink_writer, stream_sink_writer

NAMESRV = {"namesrv": "10.0.0.5:9876"}
TLS = {**NAMESRV, "tls": "true"}


def test_where_to_read() -> None:
    """Several nameservers, and who asks for how long."""
    given = {"NameSrv": "10.0.0.5:9876; [::1]:9877", "group": "reports", "networkTimeout": "500"}
    expected = NetworkAddress(("10.0.0.5:9876", "[::1]:9877"), "reports", 500)
    assert parse_options(given).network == expected
    assert parse_options(NAMESRV).network == NetworkAddress(("10.0.0.5:9876",))
    assert parse_options({"path": "/s"}).network is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "option path is missing.* namesrv"),
        ({**NAMESRV, "path": "/s"}, "options path and namesrv exclude each other"),
        ({**NAMESRV, "mode": "PERMISSIVE"}, "option mode: with namesrv only FAILFAST"),
        ({"path": "/s", "group": "g"}, "option group goes with namesrv"),
        ({"namesrv": "10.0.0.5"}, "option namesrv: address '10.0.0.5' is not of the form"),
        ({"namesrv": " ; "}, "option namesrv is empty"),
        ({**NAMESRV, "group": "a b"}, "option group: .* has ' '"),
        ({**NAMESRV, "networkTimeout": "1s"}, "option networkTimeout: '1s' is no number of milli"),
        ({"path": "/s", "tls": "true"}, "option tls goes with namesrv"),
        ({**NAMESRV, "tlsCertPath": "/c"}, "option tlsCertPath goes with tls=true"),
        ({**TLS, "tlsCheckHostname": "true"}, "tlsCheckHostname means nothing .* tlsVerifyServer"),
        (
            {**TLS, "tlsTrustCertPath": "/c", "tlsVerifyServer": "false"},
            "tlsTrustCertPath means nothing",
        ),
        ({**TLS, "tlsKeyPath": "/k"}, "option tlsCertPath is missing"),
        ({**TLS, "tlsTrustCertPath": "/no/file"}, "'/no/file': .*No such file.*driver and exec"),
        ({**TLS, "tlsKeyPasswort": "x"}, "did you mean tlsKeyPassword"),
    ],
)
def test_wrong_options_of_reads(given: dict[str, str], message: str) -> None:
    """Option, value, and what is allowed."""
    with pytest.raises(OptionError, match=message):
        parse_options(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topic": "orders"}, "option namesrv is missing"),
        ({**NAMESRV, "topc": "x"}, "unknown option 'topc'; did you mean topic"),
        ({**NAMESRV, "topic": "a b"}, "option topic: the topic 'a b' has ' '"),
        ({**NAMESRV, "sinkId": "s"}, "option sinkId is one of writeStream"),
    ],
)
def test_wrong_options_of_writes(given: dict[str, str], message: str) -> None:
    """Likewise."""
    with pytest.raises(OptionError, match=message):
        parse_sink_options(given, stream=False)


def test_what_a_sink_is_known_by() -> None:
    """Its own name, else the place of the query's checkpoints; a single write by nothing."""
    named = parse_sink_options({**NAMESRV, "sinkId": "mine"}, stream=True)
    assert named.sink == "mine"
    given = {**NAMESRV, "checkpointlocation": "/checkpoints/a"}
    one, two = (parse_sink_options(given, stream=True).sink for _ in range(2))
    assert one == two
    assert one != parse_sink_options({**given, "checkpointlocation": "/b"}, stream=True).sink
    one, two = (parse_sink_options(NAMESRV, stream=False).sink for _ in range(2))
    assert one != two
    with pytest.raises(OptionError, match="sinkId, or give checkpointLocation"):
        parse_sink_options(NAMESRV, stream=True)


TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "array<string>": ArrayType(StringType()),
    "map<string,string>": MapType(StringType(), StringType()),
    "map<string,int>": MapType(StringType(), IntegerType()),
}


def schema(text: str) -> StructType:
    """A schema."""
    columns = StructType()
    for column in text.split(", "):
        name, kind = column.split()
        columns.add(name, TYPES[kind])
    return columns


def test_rows_that_can_be_written() -> None:
    """Every type of every column."""
    for name, kinds in ROW_COLUMNS.items():
        for kind in kinds:
            more = {"topic": "string", "body": "binary"} | {name: kind}
            check_rows(schema(", ".join(f"{name} {kind}" for name, kind in more.items())), None)
    check_rows(schema("body string"), "orders")


@pytest.mark.parametrize(
    ("columns", "topic", "message"),
    [
        ("body string, tag string", "t", "no message has a column 'tag'; did you mean tags"),
        ("body int", "t", "column body is int, not binary or string: cast it"),
        ("keys string", "t", "no column body"),
        ("body string", None, "option topic, or by a column"),
        ("topic string, body string", "t", "exclude each other"),
        ("body string, properties map<string,int>", "t", "column properties is map<string,int>"),
    ],
)
def test_rows_that_cannot(columns: str, topic: str | None, message: str) -> None:
    """With what to do about it."""
    with pytest.raises(OptionError, match=message):
        check_rows(schema(columns), topic)


def test_nothing_is_overwritten() -> None:
    """Messages stay."""
    given = {**NAMESRV, "topic": "orders"}
    with pytest.raises(OptionError, match="cannot be overwritten"):
        sink_writer(given, schema("body string"), overwrite=True)
    with pytest.raises(OptionError, match="append or update"):
        stream_sink_writer(given, schema("body string"), overwrite=True)
