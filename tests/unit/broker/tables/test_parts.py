"""How the broker's tables are kept."""

import asyncio
from pathlib import Path

from support.servers.brokers import running_broker
from support.waiting import until

from aerobee.broker.settings.live import Live
from aerobee.broker.tables.parts import Tables


async def test_a_table_that_cannot_be_written_keeps_no_other_from_it(tmp_path: Path) -> None:
    """Committed offsets are on the disk although the file of the topics is not."""
    async with running_broker(tmp_path, flushConsumerOffsetInterval="600000") as broker:
        context, settings = broker.context, broker.settings
        obstacle = context.tables.topics.file.path.with_name("topics.json.tmp")
        obstacle.mkdir(parents=True)
        context.tables.topics.file.mark()
        context.tables.offsets.commit("G", "T", 0, 7)
        often = settings.model_copy(update={"flush_consumer_offset_interval": 10})
        tables = Tables(
            Live(often),
            context.tables.topics,
            context.tables.groups,
            context.tables.offsets,
            context.tables.request_modes,
        )
        saving = asyncio.create_task(tables.save())
        await until(lambda: not context.tables.offsets.file.dirty, what="the offsets are written")
        assert b'"T@G":{0:7}' in context.tables.offsets.file.path.read_bytes()
        assert context.tables.topics.file.dirty
        saving.cancel()
        obstacle.rmdir()
