"""What stands before the processors of a broker that has static topics; others do without it."""

from functools import partial
from typing import cast

import msgspec

from aerobee.broker.features.static_topics.forwarding import OtherBrokers
from aerobee.broker.features.static_topics.mapped import LOGICAL, MappedTopics
from aerobee.broker.features.static_topics.mappings import MappingTable
from aerobee.broker.features.static_topics.offsets import LogicalOffsets
from aerobee.broker.features.static_topics.pulls import LogicalPulls
from aerobee.broker.features.static_topics.sends import SENDS, LogicalSends
from aerobee.broker.start.context import Context
from aerobee.remoting.bodies import (
    TopicConfig,
    TopicConfigAndQueueMapping,
    TopicConfigSerializeWrapper,
    decode_body,
    encode_body,
)
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.topics import TopicRequest
from aerobee.remoting.net.routes import Dispatcher, NoHeader, Outcome, Processor, Reply, Request
from aerobee.remoting.net.tasks import Tasks


class Serving:
    """Reads requests by the mappings; made when the first of them is there."""

    def __init__(self, ctx: Context, table: MappingTable, tasks: Tasks) -> None:
        self._table = table
        self._mapped = mapped = MappedTopics(table, ctx.settings.broker_name)
        others = OtherBrokers(ctx.changes.live, ctx.cluster)
        self._sends = LogicalSends(mapped)
        self._offsets = LogicalOffsets(mapped, others)
        ctx.sends.checks.may_append = mapped.check_append
        ctx.writing.queues.mapped = table.details
        ctx.pulls.serve_with(partial(LogicalPulls, mapped, others, tasks))

    def put_before(self, dispatcher: Dispatcher[Context]) -> None:
        """Stand before the processors that look at queues, or tell of topics."""
        for code in SENDS:
            dispatcher.put_before(code, self._sends.before)
        for code in self._offsets.by_code:
            dispatcher.put_before(code, partial(self._offsets.before, code))
        dispatcher.put_before(RequestCode.GET_TOPIC_CONFIG, self._config)
        dispatcher.put_before(RequestCode.GET_ALL_TOPIC_CONFIG, self._all)
        dispatcher.put_before(RequestCode.DELETE_TOPIC_IN_BROKER, self._deleted)

    def _config(self, serve: Processor[Context]) -> Processor[Context]:
        def config(ctx: Context, request: Request[TopicRequest]) -> Outcome:
            """Return a topic with its mapping, for who asks for both."""
            topic = ctx.tables.topics.get(request.header.topic)
            detail = self._mapped.find(request.header.topic)
            if topic is None or detail is None or request.command.ext.get(LOGICAL) != "true":
                return cast("Outcome", serve(ctx, request))  # it does not wait
            fields = {name: getattr(topic, name) for name in TopicConfig.__struct_fields__}
            return Reply(
                body=encode_body(TopicConfigAndQueueMapping(**fields, mapping_detail=detail))
            )

        return config

    def _all(self, serve: Processor[Context]) -> Processor[Context]:
        def all_topics(ctx: Context, request: Request[NoHeader]) -> Outcome:
            """Return topics with the mappings of those that are static."""
            outcome = serve(ctx, request)
            assert isinstance(outcome, Reply)
            topics = decode_body(TopicConfigSerializeWrapper, outcome.body)
            named = {
                name: detail
                for name, detail in self._table.details.items()
                if name in topics.topic_config_table
            }
            body = msgspec.structs.replace(
                topics,
                mapping_data_version=self._table.data_version,
                topic_queue_mapping_detail_map=named,
            )
            return msgspec.structs.replace(outcome, body=msgspec.json.encode(body))

        return all_topics

    def _deleted(self, serve: Processor[Context]) -> Processor[Context]:
        async def delete(ctx: Context, request: Request[TopicRequest]) -> Outcome:
            """Answer when a topic's mapping is gone from the disk, too."""
            outcome: Outcome = await serve(ctx, request)  # type: ignore[misc]
            if not ctx.tables.topics.is_listed(request.header.topic):  # nor was, after a kill
                self._table.drop(request.header.topic)
            try:
                await self._table.file.flush()
            except OSError as error:
                raise RequestError(
                    ResponseCode.SYSTEM_ERROR,
                    f"topic {request.header.topic} is deleted, but a restart may bring its mapping"
                    f" back: the disk refuses: {error}; make room on it, or look after it, and"
                    " delete it again",
                ) from None
            return outcome

        return delete
