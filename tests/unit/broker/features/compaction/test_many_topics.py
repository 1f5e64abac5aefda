"""Ten thousand compaction topics cost a look what two thousand queues do, and are all copied."""

from pathlib import Path

from support.servers.live_broker import live_broker
from support.waiting import until

from aerobee.broker.features.compaction.copying import QUEUES_PER_LOOK
from aerobee.broker.features.compaction.feature import Compaction
from aerobee.remoting.bodies import TopicConfig
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.storage.queues.consume_queue import ConsumeQueue

TOPICS = 10_000
LAST = f"topic-{TOPICS - 1}"


async def test_a_look_is_bounded_and_none_is_forgotten(tmp_path: Path) -> None:
    """What one look does not reach the next ones do; until then the log keeps it."""
    async with live_broker(tmp_path, compaction_mapped_file_size=1 << 16) as live:
        topics = live.broker.context.tables.topics
        for number in range(TOPICS):
            name = f"topic-{number}"
            config = TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1)
            topics.update(config, {"+cleanup.policy": "COMPACTION"})
        feature = live.broker.features.find(Compaction)
        assert feature is not None
        copying = feature.copying
        looked_at: list[tuple[str, int]] = []
        find = live.broker.store.find_queue

        def counted(topic: str, queue_id: int) -> ConsumeQueue | None:
            looked_at.append((topic, queue_id))
            return find(topic, queue_id)

        live.broker.store.find_queue = counted  # type: ignore[method-assign]
        copying.look()
        copying.look()
        assert 0 < len(looked_at) <= 2 * QUEUES_PER_LOOK
        before = live.broker.store.commit_log.committed
        fields = {"a": "p", "b": LAST, "c": "TBW102", "d": 1, "e": 0, "f": 0, "g": 1, "h": 0}
        sent = await live.ask(
            RequestCode.SEND_MESSAGE_V2, {**fields, "i": "KEYS\x01k\x02"}, b"value"
        )
        assert sent.code == ResponseCode.SUCCESS
        copy = feature.copies.queue(LAST, 0)

        def copied() -> bool:
            copying.look()
            assert copy.synced_end == 1 or copying.kept_from() <= before
            return copy.end == 1

        await until(copied, what="the last topic to be copied")
