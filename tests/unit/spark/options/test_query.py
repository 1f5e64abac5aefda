"""Options are checked on the driver; a refusal names the option and what is allowed."""

from __future__ import annotations

import pytest

from aerobee.spark.errors import OptionError
from aerobee.spark.offsets import EARLIEST, BrokerQueue
from aerobee.spark.options.query import Options, parse_options
from aerobee.spark.records.columns import USUAL
from aerobee.spark.records.selection import Selection
from aerobee.spark.topics import TopicChoice


def test_path_alone_is_enough() -> None:
    """Everything else has a default."""
    assert parse_options({"path": "/s"}) == Options("/s", USUAL)


def test_list_of_paths_is_what_load_was_given() -> None:
    """Spark hands it on as JSON, by another name."""
    assert parse_options({"paths": '["/a,b", "x=/c"]'}).path == ("/a,b", "x=/c")


def test_every_option_is_understood_in_any_case() -> None:
    """Spark hands option names over in lower case."""
    given = {
        "path": " /s ",
        "columns": "Body, topic",
        "PROPERTIES": "Binary",
        "decompress": "TRUE",
        "partitionbytes": "256m",
        "subscribe": "orders, payments",
        "startingTimestamp": "1000",
        "endingTimestamp": "2000",
        "startingoffsets": "Earliest",
        "ENDINGOFFSETS": '{"orders": {"s:0": 3}}',
        "minPartitions": "5",
        "verifyCrc": "true",
        "failOnDataLoss": "FALSE",
        "pushFilters": "True",
        "mode": "dropmalformed",
        "includeSystemTopics": "true",
        "includeRetryTopics": "true",
    }
    topics = frozenset({"orders", "payments"})
    assert parse_options(given) == Options(
        "/s",
        ("body", "topic"),
        "binary",
        decompress=True,
        verify_crc=True,
        partition_bytes=256 << 20,
        partitions_min=5,
        fail_on_data_loss=False,
        push_filters=True,
        mode="DROPMALFORMED",
        ending='{"orders": {"s:0": 3}}',
        selection=Selection(None, 1000, 2000, TopicChoice(names=topics)),
    )


def test_offsets_and_queues_are_read_when_brokers_are_known() -> None:
    """Words stand for all queues."""
    given = {"endingOffsets": '{"orders": {"0": 3}}', "assign": '{"orders": ["0"]}'}
    options = parse_options({"path": "/s", **given})
    key = BrokerQueue("s", "orders", 0)
    assert options.starting_offsets(["s"]) == EARLIEST
    assert options.ending_offsets(["s"]) == {key: 3}
    assert options.choice(["s"]) == TopicChoice(queues=frozenset({key}))
    with pytest.raises(OptionError, match=r"option endingOffsets: .* several are read"):
        options.ending_offsets(["a", "b"])
    with pytest.raises(OptionError, match=r"option assign: .* several are read"):
        options.choice(["a", "b"])


def test_system_and_retry_topics_are_asked_for() -> None:
    """As the options' names say."""
    choice = parse_options({"path": "/s"}).selection.choice
    assert choice == TopicChoice(system=False, retry=False)


def test_permissive_mode_adds_its_column() -> None:
    """Unless columns are named."""
    assert parse_options({"path": "/s", "mode": "permissive"}).columns == (*USUAL, "_corrupt")
    named = {"path": "/s", "mode": "permissive", "columns": "topic,_corrupt"}
    assert parse_options(named).columns == ("topic", "_corrupt")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": ""}, "option path is missing"),
        ({"path": "", "paths": "[]"}, "options path and paths .* exclude each other"),
        ({"colums": "a"}, "unknown option 'colums'; did you mean columns"),
        ({"columns": "boddy"}, "option columns: unknown column 'boddy'; did you mean body"),
        ({"columns": " , "}, "option columns: .* names no column"),
        ({"columns": "body,body"}, "option columns: column 'body' stands there twice"),
        ({"properties": "mapp"}, "option properties: 'mapp' .* map, binary; did you mean map"),
        ({"decompress": "yes"}, "option decompress: 'yes' is not one of true, false"),
        ({"partitionBytes": "lots"}, "option partitionBytes: 'lots' is no size"),
        ({"partitionBytes": "1"}, "option partitionBytes: '1' is no size of at least 64k"),
        ({"subscribe": ","}, "option subscribe: ',' names no topic"),
        ({"startingTimestamp": "today"}, "option startingTimestamp: 'today' is no time in mill"),
        ({"mode": "permisive"}, "option mode: 'permisive' .* DROPMALFORMED; did you mean PERMISS"),
        ({"mode": "PERMISSIVE", "columns": "topic"}, "option mode: .* the column _corrupt"),
        ({"columns": "_corrupt"}, "column _corrupt is there with the option mode=PERMISSIVE"),
        ({"minPartitions": "0"}, "option minPartitions: '0' is no number of partitions from 1"),
        ({"subscribePattern": "("}, "option subscribePattern: '.' is no regular expression"),
        ({"subscribe": "a", "assign": "{}"}, "options subscribe and assign exclude each other"),
        ({"startingOffsets": "latest"}, "option startingOffsets: 'latest' reads nothing"),
        ({"startingOffsets": "earlyest"}, "option startingOffsets: .* did you mean earliest"),
        ({"endingOffsets": "earliest"}, "option endingOffsets: 'earliest' reads nothing"),
        ({"startingTimestamp": "5", "endingTimestamp": "5"}, "option endingTimestamp: 5 is not"),
    ],
)
def test_wrong_options_are_named(given: dict[str, str], message: str) -> None:
    """Option, value, and what is allowed."""
    with pytest.raises(OptionError, match=message):
        parse_options({"path": "/s", **given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"paths": "[]"}, "option path is missing"),
        ({"paths": "/a"}, "option paths: '/a' is no list of paths"),
        ({"paths": "[1]"}, "option paths: .* is no list of paths"),
        ({"paths": '["/a"]', "namesrv": "a:1"}, "options path and namesrv exclude each other"),
    ],
)
def test_wrong_lists_of_paths_are_named(given: dict[str, str], message: str) -> None:
    """Likewise."""
    with pytest.raises(OptionError, match=message):
        parse_options(given)


def test_assigned_queues_are_read_whatever_their_topic_is() -> None:
    """Tasks leave out no topic that the plan was told to read."""
    given = {"path": "/s", "assign": '{"%RETRY%g": ["0"], "SCHEDULE_TOPIC_XXXX": ["3"]}'}
    options = parse_options(given)
    assert options.selection.wants_topic("%RETRY%g")
    assert options.selection.wants_topic("SCHEDULE_TOPIC_XXXX")
    assert not options.choice(["s"]).wants("orders")


def test_words_that_spark_adds_to_a_table_are_no_options() -> None:
    """And what stands in its TBLPROPERTIES and is none; what OPTIONS say must be right."""
    added = {
        "owner": "root",
        "provider": "rocketmq",
        "location": "file:/data",
        "comment": "ours",
        "external": "true",
        "transient_lastDdlTime": "1763750000",
        "team": "billing",
    }
    given = {**added, "path": "file:/data", "option.subscribe": "orders", "subscribe": "orders"}
    assert parse_options(given) == parse_options({"path": "file:/data", "subscribe": "orders"})
    with pytest.raises(OptionError, match=r"'subscrybe'; did you mean subscribe\?"):
        parse_options({**added, "path": "/d", "option.subscrybe": "a", "subscrybe": "a"})
    with pytest.raises(OptionError, match="unknown option 'team'"):
        parse_options({"path": "/d", "team": "billing"})


@pytest.mark.parametrize("name", ["topic", "Topics"])
def test_topic_is_called_subscribe(name: str) -> None:
    """Writers have the option, so that readers look for it."""
    with pytest.raises(OptionError, match=f"option {name.lower()} is called subscribe"):
        parse_options({"path": "/d", name: "orders"})
