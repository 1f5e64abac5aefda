"""The table of topics: how topics come to be, change, and survive a restart."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from support.golden.tables import TOPIC

from aerobee.broker.rules.system_topics import is_system_topic, system_topics
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.broker.tables.topics import TopicTable
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError

GOLDEN = Path(__file__).parents[3] / "golden" / "config"
SETTINGS = BrokerSettings(broker_ip1="127.0.0.1")


class Clock:
    """Milliseconds that go on by one at every look."""

    def __init__(self) -> None:
        self.now_ms = 1000

    def __call__(self) -> int:
        self.now_ms += 1
        return self.now_ms


def table(folder: Path, **options: bool | int) -> TopicTable:
    """Make a loaded table in `folder`."""
    auto_create = bool(options.pop("auto_create", True))
    topics = TopicTable(
        system_topics(SETTINGS), Clock(), folder, auto_create=auto_create, **options
    )
    topics.load()
    return topics


def test_system_topics_are_those_of_rocketmq() -> None:
    """Names, queues and permissions of a fresh RocketMQ 5.5.0, none missing, none more."""
    stored = json.loads((GOLDEN / "topics.json").read_text())["topicConfigTable"]
    del stored[TOPIC]
    made = {
        topic.topic_name: (topic.read_queue_nums, topic.write_queue_nums, topic.perm)
        for topic in system_topics(SETTINGS)
    }
    assert made == {
        name: (topic["readQueueNums"], topic["writeQueueNums"], topic["perm"])
        for name, topic in stored.items()
    }
    assert is_system_topic("rmq_sys_anything", SETTINGS)
    assert is_system_topic("RMQ_SYS_TRACE_TOPIC", SETTINGS), "though it is not made by default"
    assert not is_system_topic(TOPIC, SETTINGS)


def test_rocketmqs_file_is_read_and_ours_has_its_shape(tmp_path: Path) -> None:
    """A file that RocketMQ wrote is taken whole; what we write has every key of it."""
    original = (GOLDEN / "topics.json").read_bytes()
    (tmp_path / "topics.json").write_bytes(original)
    topics = table(tmp_path)
    config = topics.get(TOPIC)
    assert config is not None
    assert config.order and config.attributes == {"message.type": "FIFO"}
    assert json.loads(topics.encode()) == json.loads(original)


def test_first_send_makes_a_topic_after_its_model(tmp_path: Path) -> None:
    """As many queues as the client wants, at most the model's; without the right to inherit."""
    topics = table(tmp_path)
    version = topics.data_version
    made = topics.create_on_send("t", "TBW102", 4)
    assert made is not None
    assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (4, 4, 6)
    assert topics.data_version.counter == version.counter + 1
    assert topics.data_version.timestamp > version.timestamp
    more = topics.create_on_send("u", "TBW102", 100)
    assert more is not None and more.write_queue_nums == 8
    none = topics.create_on_send("v", "TBW102", -3)
    assert none is not None and none.write_queue_nums == 0
    assert topics.create_on_send("t", "nonsense", 1) is made


@pytest.mark.parametrize("model", ["nonsense", "SELF_TEST_TOPIC"])
def test_a_topic_needs_a_model_that_lets_inherit(tmp_path: Path, model: str) -> None:
    """An unknown model and one without INHERIT make nothing."""
    topics = table(tmp_path)
    assert topics.create_on_send("t", model, 4) is None
    assert topics.get("t") is None


def test_auto_creation_can_be_switched_off_while_running(tmp_path: Path) -> None:
    """TBW102 is there from the start; what counts is the setting at the moment."""
    topics = table(tmp_path)
    topics.apply(BrokerSettings(broker_ip1="127.0.0.1", auto_create_topic_enable=False))
    assert topics.create_on_send("t", "TBW102", 4) is None
    assert topics.create_on_send("t", "DefaultCluster", 4) is not None


def test_a_groups_topic_follows_order_only(tmp_path: Path) -> None:
    """A retry topic keeps its queues, and turns ordered with its group."""
    topics = table(tmp_path)
    made, new = topics.create_for_group("%RETRY%g", 1)
    assert new and made.perm == 6
    same, new = topics.create_for_group("%RETRY%g", 5)
    assert same is made and not new
    ordered, new = topics.create_for_group("%RETRY%g", 5, order=True)
    assert new and ordered.order and ordered.read_queue_nums == 1


def test_an_update_tells_who_wants_to_know(tmp_path: Path) -> None:
    """Listeners hear of makings and changes, not of updates that change nothing."""
    topics = table(tmp_path)
    heard: list[str] = []
    topics.on_changed.append(lambda config: heard.append(f"{config.topic_name} {config.perm}"))
    topics.on_deleted.append(lambda config: heard.append(f"{config.topic_name} gone"))
    topics.update(TopicConfig(topic_name="t", perm=6), {"+message.type": "FIFO"})
    topics.update(TopicConfig(topic_name="t", perm=6))
    changed = topics.update(TopicConfig(topic_name="t", perm=4))
    assert changed.attributes == {"message.type": "FIFO"}, "attributes stay unless edited"
    assert topics.delete("t") == changed
    assert topics.delete("t") is None
    assert heard == ["t 6", "t 4", "t gone"]


def test_order_configuration_of_the_nameservers(tmp_path: Path) -> None:
    """A topic they call ordered is ordered; unknown ones are passed over."""
    topics = table(tmp_path)
    topics.create_on_send("t", "TBW102", 4)
    topics.mark_order_topics(["t", "unknown"])
    assert topics.is_order_topic("t") and not topics.is_order_topic("unknown")


def test_topics_are_limited(tmp_path: Path) -> None:
    """Clients can make topics one by one, but not without end; known ones may still change."""
    topics = table(tmp_path, topics_max=len(system_topics(SETTINGS)) + 1)
    topics.create_on_send("t", "TBW102", 4)
    with pytest.raises(RequestError, match="topicsMax") as refused:
        topics.create_on_send("u", "TBW102", 4)
    assert refused.value.code == ResponseCode.SYSTEM_ERROR
    topics.update(TopicConfig(topic_name="t", perm=4))


async def test_a_restart_finds_everything(tmp_path: Path) -> None:
    """Topics, attributes and the version survive; a changed system topic stays changed."""
    topics = table(tmp_path)
    topics.update(TopicConfig(topic_name="t", read_queue_nums=3), {"+message.type": "DELAY"})
    topics.update(TopicConfig(topic_name="BenchmarkTest", read_queue_nums=2))
    await topics.file.flush()
    again = table(tmp_path)
    assert list(again) == list(topics)
    assert again.data_version == topics.data_version


async def test_of_many_topics_that_which_changes_is_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more of ten thousand costs one; what changes meanwhile is in the next file, whole."""
    topics = table(tmp_path)
    for number in range(2005):
        topics.update(TopicConfig(topic_name=f"t{number}", read_queue_nums=4, write_queue_nums=4))
    before = json.loads(topics.encode())
    assert len(before["topicConfigTable"]) == len(topics)
    encoded: list[object] = []
    encode = msgspec.json.encode

    def noted(value: object) -> bytes:
        if isinstance(value, TopicConfig):
            encoded.append(value)
        return encode(value)

    monkeypatch.setattr(msgspec.json, "encode", noted)
    flush = asyncio.create_task(topics.file.flush())
    await asyncio.sleep(0)  # it has begun
    changed = TopicConfig(topic_name="t7", read_queue_nums=9, write_queue_nums=9)
    topics.update(changed)
    topics.delete("t8")
    await flush
    assert encoded == [changed]
    assert json.loads(topics.file.path.read_bytes()) == before
    assert topics.file.dirty
    await topics.file.flush()
    after = json.loads(topics.file.path.read_bytes())
    assert after["topicConfigTable"]["t7"]["readQueueNums"] == 9
    assert "t8" not in after["topicConfigTable"]
    assert after["dataVersion"]["counter"] == before["dataVersion"]["counter"] + 2
    again = table(tmp_path)
    assert again.get("t7") == topics.get("t7") and len(again) == len(topics)
