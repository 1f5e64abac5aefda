"""The tables that a broker keeps in `config`: loaded, saved as they change, and at last."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Self

from aerobee.broker.room import Room, Work
from aerobee.broker.rules.system_topics import system_topics
from aerobee.broker.settings.live import Live
from aerobee.broker.tables.committed import OffsetTable
from aerobee.broker.tables.groups import GroupTable
from aerobee.broker.tables.request_modes import RequestModeTable
from aerobee.broker.tables.table_file import TableFile
from aerobee.broker.tables.topics import TopicTable
from aerobee.remoting.clocks import wall_clock_ms

log = logging.getLogger(__name__)


class Tables(Room):
    """Topics, groups, offsets, and how groups share queues."""

    files: list[TableFile]

    def __init__(
        self,
        live: Live,
        topics: TopicTable,
        groups: GroupTable,
        offsets: OffsetTable,
        request_modes: RequestModeTable,
    ) -> None:
        self._live = live
        self.topics = topics
        self.groups = groups
        self.offsets = offsets
        self.request_modes = request_modes
        self.files = [  # saved every few seconds
            topics.file, groups.file, offsets.file, request_modes.file,
        ]  # fmt: skip

    @classmethod
    def load(cls, live: Live) -> Self:
        """Read what earlier runs have kept."""
        settings = live.current
        folder = settings.config_dir
        topics = TopicTable(
            system_topics(settings),
            wall_clock_ms,
            folder,
            auto_create=settings.auto_create_topic_enable,
            topics_max=settings.topics_max,
        )
        groups = GroupTable(
            wall_clock_ms,
            folder,
            auto_create=settings.auto_create_subscription_group,
            create_system=settings.enable_create_sys_group,
            groups_max=settings.groups_max,
        )
        offsets = OffsetTable(
            wall_clock_ms,
            folder,
            version_step=settings.consumer_offset_update_version_step,
            offsets_max=settings.offsets_max,
        )
        topics.load()
        groups.load()
        offsets.load()
        for table in (topics, groups, offsets):
            live.on_change(table.apply)
        return cls(live, topics, groups, offsets, RequestModeTable(folder))

    async def save(self) -> None:
        """Write what has changed, every `flushConsumerOffsetInterval`."""
        while True:
            await asyncio.sleep(self._live.current.flush_consumer_offset_interval / 1000)
            saves = [file.save for file in self.files if file is not self.offsets.file]
            for save in (*saves, self.offsets.flush):
                try:
                    await save()
                except OSError:  # of one file, which says so: the others are written all the same
                    pass
                except Exception:  # and none of them is given up
                    log.exception("table_not_saved")

    def background(self) -> Iterable[Work]:
        """Save what has changed."""
        return (Work("tables", self.save),)

    def close(self) -> OSError | None:
        """Write them all; what could not be written, on a full disk, is no reason to stop."""
        unsaved = None
        for file in self.files:
            try:
                file.flush_now()
            except OSError as error:
                unsaved = error
        return unsaved
