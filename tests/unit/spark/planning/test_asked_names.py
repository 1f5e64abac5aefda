"""Topics and queues that are not there are refused by name, with the nearest that is."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest
from support.disks.stores import Stored, StoreWriter
from support.lake.fake_spark import Checkpoint, reader_of, run
from support.lake.spark_rows import rows

from aerobee.spark.at_rest.stores import find_stores
from aerobee.spark.errors import OptionError
from aerobee.spark.offsets import BrokerQueue, QueueRange
from aerobee.spark.planning.asked_names import check_offsets, configured_queues
from aerobee.spark.topics import TopicChoice


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two topics, one with an empty queue, and one that nobody has sent to."""
    writer = StoreWriter(tmp_path / "s", 1 << 16)
    for number in range(12):
        writer.append(Stored(topic="orders" if number % 3 else "payments"))
    root = writer.close()
    (root / "consumequeue" / "idle" / "0").mkdir(parents=True)
    (root / "config").mkdir()
    table = {
        topic: {"topicName": topic, "readQueueNums": 4, "writeQueueNums": 4}
        for topic in ("orders", "quiet")
    }
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    return root


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "ordres"}, "option subscribe: .* topic 'ordres'; did you mean orders?"),
        ({"subscribe": "orders,paymens"}, "option subscribe: .* topic 'paymens'; did you mean pay"),
        ({"startingOffsets": '{"ordres": {"s:0": 0}}'}, "startingOffsets: .*; did you mean orders"),
        ({"endingOffsets": '{"orders": {"s:77": 1}}'}, "queue orders s:77 .there are: s:0."),
        ({"startingOffsets": '{"orders": {"77": -2}}'}, "queue orders s:77 .there are: s:0."),
    ],
)
def test_wrong_names_are_refused(store: Path, options: dict[str, str], message: str) -> None:
    """In each option that names some."""
    with pytest.raises(OptionError, match=message):
        rows(store, **options)


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"subscribe": "idle"}, 0),
        ({"subscribe": "quiet,orders"}, 8),
        ({"startingOffsets": '{"orders": {"0": 2, "3": 0}}'}, 10),
        ({"subscribe": "ordres,orders", "failOnDataLoss": "false"}, 8),
        ({"startingOffsets": '{"orders": {"77": 0}}', "failOnDataLoss": "false"}, 12),
    ],
)
def test_what_may_have_no_messages_is_read(
    store: Path, options: dict[str, str], count: int
) -> None:
    """Empty queues, topics that brokers know, and what may be gone."""
    assert len(rows(store, **options)) == count


def test_topic_may_be_in_one_of_several_stores(store: Path, tmp_path: Path) -> None:
    """Or in one without queues, whose log alone could tell."""
    writer = StoreWriter(tmp_path / "t", 1 << 16)
    writer.append(Stored(topic="others"))
    writer.close()
    both = f"{store},{tmp_path / 't'}"
    assert len(rows(both, subscribe="others")) == 1
    with pytest.raises(OptionError, match="there is no topic 'nothing'"):
        rows(both, subscribe="nothing")
    shutil.rmtree(tmp_path / "t" / "consumequeue")
    assert rows(both, subscribe="nothing") == []


def test_stream_waits_for_topics_that_may_come(
    store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It warns of them."""
    with caplog.at_level(logging.WARNING):
        checkpoint = Checkpoint()
        run(reader_of(store, subscribe="ordres", startingOffsets="earliest"), checkpoint)
    assert checkpoint.rows() == []
    assert "there is no topic 'ordres'; did you mean orders?" in caplog.text


def test_offsets_of_other_queues_than_those_read_are_refused() -> None:
    """Whether or not they are there; what is there is fine."""
    key = BrokerQueue("s", "orders", 0)
    bounds = {key: QueueRange(key, 0, 5)}
    orders = TopicChoice(names=frozenset({"orders"}))
    check_offsets("startingOffsets", {key: 3}, orders, bounds, fail=True)
    other = BrokerQueue("s", "payments", 0)
    with pytest.raises(OptionError, match="payments s:0 is not among those to read"):
        check_offsets("startingOffsets", {other: 3}, orders, bounds, fail=False)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"topicConfigTable": {"a": {}}}', '{"a": 1}'])
def test_table_of_topics_that_says_nothing(store: Path, text: str) -> None:
    """Stores are read without it."""
    (store / "config" / "topics.json").write_text(text)
    assert configured_queues(find_stores(str(store))[0]) == {}
