"""Static topics as a feature: their mappings, and who changes them (code 513)."""

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from aerobee.broker.cluster.announcing import until_known
from aerobee.broker.features.feature import Feature
from aerobee.broker.features.static_topics.mappings import MappingTable
from aerobee.broker.features.static_topics.stretches import refused
from aerobee.broker.rules.names import check_topic
from aerobee.broker.rules.system_topics import is_system_topic
from aerobee.broker.start.context import Context
from aerobee.remoting.bodies import TopicConfig, TopicQueueMappingDetail, decode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.topics import CreateTopicRequest
from aerobee.remoting.net.routes import Outcome, Reply, Request, Routes
from aerobee.remoting.net.tasks import Tasks

if TYPE_CHECKING:
    from aerobee.broker.features.static_topics.serving import Serving

log = logging.getLogger(__name__)

SAVE_INTERVAL_S: Final = 5.0
QUEUES_MAX: Final = 32_767
PERM_MAX: Final = 15


class StaticTopics(Feature):
    """Knows the mappings; what reads requests by them is loaded with the first one."""

    def __init__(self, context: Context) -> None:
        self._context = context
        settings = context.settings
        self.table = MappingTable(settings.config_dir, settings.broker_name, context.now_ms)
        self.files = (self.table.file,)
        self.answers = Routes("static topics")
        self.answers.on(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, CreateTopicRequest)(
            self._update
        )
        self._turn = asyncio.Lock()
        self._tasks = Tasks(context.health.faults.caught)
        self._serving: Serving | None = None
        context.tables.topics.on_deleted.append(lambda topic: self.table.drop(topic.topic_name))
        if self.table.details:
            self._begin()

    def before_requests(self) -> None:
        """Stand before the processors, where there are mappings."""
        if self._serving is not None:
            assert self._context.dispatcher is not None
            self._serving.put_before(self._context.dispatcher)
            self._tasks.keep(self._save, "static topics")

    async def stop(self) -> None:
        """End what waits for other brokers."""
        await self._tasks.close()

    def close(self) -> OSError | None:
        """Write what is not written."""
        try:
            self.table.file.flush_now()
        except OSError as error:
            return error
        return None

    async def _save(self) -> None:
        """Write what could not be written when it changed."""
        while True:
            await asyncio.sleep(SAVE_INTERVAL_S)
            with suppress(OSError):  # see TableFile.error
                await self.table.file.flush()

    def _begin(self) -> None:
        from aerobee.broker.features.static_topics.serving import Serving

        self._serving = Serving(self._context, self.table, self._tasks)
        self._context.cluster.registration.mapped = self.table.infos

    async def _update(self, _: object, request: Request[CreateTopicRequest]) -> Outcome:
        """Make or change a static topic on this broker (updateAndCreateStaticTopic).

        From the turn in which this is decided no message goes into a queue that leads no more; it
        is answered when mapping and topic are on the disk and the nameservers know of them.
        """
        header, context = request.header, self._context
        check_topic(header.topic)
        self._check(header)
        detail = decode_body(TopicQueueMappingDetail, request.command.body)
        if detail.topic != header.topic:
            raise refused(f"the mapping is of topic {detail.topic}, not of {header.topic}")
        async with self._turn:  # of two at once the second follows what the first has left
            announced = context.cluster.announcements.announce(await self._decide(header, detail))
        await until_known(announced)
        return Reply()

    async def _decide(
        self, header: CreateTopicRequest, detail: TopicQueueMappingDetail
    ) -> TopicConfig:
        """Put a mapping in force, and its topic when the disk has it; RequestError: neither is."""
        topic, topics = header.topic, self._context.tables.topics
        topics.check_new([topic])
        was = self.table.details.get(topic)
        anew = not topics.is_listed(topic)  # what a kill has left of one that is no topic
        planned = self.table.planned(detail, force=bool(header.force), anew=anew)
        self.table.put(planned)
        self._follow(topic)
        try:
            await self.table.file.flush()  # first: a topic without its mapping is another topic
            if self.table.details.get(topic) is not planned:
                raise refused(f"topic {topic} has been deleted meanwhile")
            return topics.update(
                TopicConfig(
                    topic_name=topic,
                    read_queue_nums=header.read_queue_nums,
                    write_queue_nums=header.write_queue_nums,
                    perm=header.perm,
                    topic_filter_type=header.topic_filter_type,
                    topic_sys_flag=header.topic_sys_flag or 0,
                )
            )
        except OSError as error:
            self._take_back(planned, was)
            raise RequestError(
                ResponseCode.SERVICE_NOT_AVAILABLE, f"the mapping cannot be kept: {error}"
            ) from None
        except RequestError:
            self._take_back(planned, was)
            raise

    def _take_back(
        self, planned: TopicQueueMappingDetail, was: TopicQueueMappingDetail | None
    ) -> None:
        """Go on by the mapping that was in force, unless the topic has gone meanwhile."""
        if self.table.details.get(planned.topic) is planned:
            if was is None:
                self.table.drop(planned.topic)
            else:
                self.table.put(was)
            self._follow(planned.topic)

    def _follow(self, topic: str) -> None:
        """Read requests by the new mapping, also those that wait."""
        context = self._context
        context.tables.topics.next_version()  # whoever has checked requests for it checks again
        if self._serving is None:
            self._begin()
            self.before_requests()
            context.front.take_pulls()
        context.writing.queues.forget_checks()
        for queue in context.writing.queues.used():
            if queue.name == topic:
                context.pulls.holds.release(queue)

    def _check(self, header: CreateTopicRequest) -> None:
        settings = self._context.settings
        if settings.validate_system_topic_when_update_topic and is_system_topic(
            header.topic, settings
        ):
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"The topic[{header.topic}] is conflict with system topic.",
            )
        for name, value, limit in (
            ("readQueueNums", header.read_queue_nums, QUEUES_MAX),
            ("writeQueueNums", header.write_queue_nums, QUEUES_MAX),
            ("perm", header.perm, PERM_MAX),
        ):
            if not 0 <= value <= limit:
                raise RequestError(
                    ResponseCode.INVALID_PARAMETER, f"{name} is {value}, allowed: 0 to {limit}"
                )


make = StaticTopics
