"""The checked path of sends: whatever the fast path declines is checked, completed and stored.

The first plain message that passes for a queue puts that queue on the fast path's list.
"""

import random
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from aerobee.broker.sends.checks import Checked, SendChecks
from aerobee.broker.sends.storing import Placed, Storing, busy
from aerobee.broker.settings.live import Live
from aerobee.broker.writing.hooks import BrokerHooks, SendEvent
from aerobee.broker.writing.placing import StoredBefore
from aerobee.broker.writing.stamps import broker_properties
from aerobee.remoting.codes import RequestCode, ResponseCode, SysFlag
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.send import AnySend, SendMessageReply
from aerobee.remoting.message.message_id import UniqueIds
from aerobee.remoting.message.properties import Property
from aerobee.remoting.net.routes import Reply, Request
from aerobee.storage.errors import LogBusy, MessageTooLarge

Outcome = Reply | Coroutine[Any, Any, Reply]
Known = Callable[[], Coroutine[Any, Any, None]]
"""Returns when a topic is on disk and known to every nameserver."""

_unique_ids = UniqueIds()


class CheckedSends:
    """Stores what was checked and answers it; a coroutine where something has to be waited for."""

    def __init__(
        self, live: Live, checks: SendChecks, storing: Storing, hooks: BrokerHooks
    ) -> None:
        self._live = live
        self._checks = checks
        self._storing = storing
        self._hooks = hooks

    def store_request(
        self, request: Request[AnySend], checked: Checked, known: Known | None
    ) -> Outcome:
        """Store what a request carries; `known` returns when its topic is, None where it is."""
        if known is not None:
            return self._store_when_known(request, checked, known)
        try:
            return self._store(request, checked)
        except LogBusy:
            return self._store_when_room(request, checked.header)
        except RequestError as error:
            return self.refused(error)

    def refused(self, error: RequestError) -> Reply:
        """Build the reply to a message that is not stored."""
        return Reply(code=error.code, remark=error.remark, ext=self.reply_fields())

    async def _store_when_known(
        self, request: Request[AnySend], checked: Checked, known: Known
    ) -> Reply:
        """Store when the topic is on disk and known to every nameserver."""
        try:
            await known()
        except RequestError as error:
            return self.refused(error)
        return await self._store_or_refuse(request, checked)

    async def _store_when_room(self, request: Request[AnySend], header: AnySend) -> Reply:
        """Wait for room in the log, then check and try once more."""
        await self._storing.room_prepared()
        return await self._store_or_refuse(request, self._checks.check_request(request, header))

    async def _store_or_refuse(self, request: Request[AnySend], checked: Checked) -> Reply:
        """Store, with a refusal as a reply."""
        try:
            outcome = self._store(request, checked)
        except LogBusy:
            return self.refused(busy())
        except RequestError as error:
            return self.refused(error)
        return outcome if isinstance(outcome, Reply) else await outcome

    def _store(self, request: Request[AnySend], checked: Checked) -> Outcome:
        """Append what the request carries; the reply waits for the disk if the store does."""
        header, topic, connection = checked.header, checked.topic, request.connection
        queue_id = header.queue_id
        if queue_id < 0:
            queue_id = random.randrange(max(topic.write_queue_nums, 1))
        body_bytes, text = len(request.command.body), header.properties or ""
        event = SendEvent(
            connection, header.producer_group, header.topic, queue_id, text, body_bytes
        )
        for hook in self._hooks.before_send:
            hook(event)
        multi_tags = topic.topic_filter_type == "MULTI_TAG"
        sys_flag = header.sys_flag | (SysFlag.MULTI_TAGS if multi_tags else 0)
        try:
            placed, unique_key = self._place(request, checked, queue_id)
            positions, offset = self._storing.append(
                placed, connection.host_bytes, header.born_timestamp,
                sys_flag, header.reconsume_times or 0,
            )  # fmt: skip
        except MessageTooLarge as error:
            raise self._checks.illegal() from error
        except StoredBefore as known:
            return self._answer_again(event, checked, known)
        reply = SendMessageReply(
            msg_id=self._storing.message_ids(positions),
            queue_id=queue_id,
            queue_offset=offset,
            transaction_id=unique_key,
        )
        if placed.reply:
            reply = replace(reply, **placed.reply)
        own = placed.queue.name == header.topic or placed.cleared_flags  # a half: checked likewise
        if own and not multi_tags and not self._hooks.watch_sends:
            queue = self._storing.queues.get(header.topic, queue_id)
            self._storing.queues.admit(queue, topic, self._live.current.broker_permission)
        if self._storing.waits:
            return self._answer_when_durable(event, reply)
        return self._answered(event, reply, ResponseCode.SUCCESS)

    def _answer_again(self, event: SendEvent, checked: Checked, known: StoredBefore) -> Outcome:
        """Answer a message that is stored already as its first send was, or would have been."""
        reply = SendMessageReply(
            msg_id=self._storing.message_ids([known.position]),
            queue_id=known.queue_id,
            queue_offset=known.offset,
            transaction_id=checked.properties.get(Property.UNIQ_KEY),
        )
        if self._storing.waits:
            return self._answer_when_durable(event, reply)
        return self._answered(event, reply, ResponseCode.SUCCESS)

    def _place(
        self, request: Request[AnySend], checked: Checked, queue_id: int
    ) -> tuple[Placed, str | None]:
        """Complete what was sent, once it is checked; with the unique key of a single message."""
        header, body, settings = checked.header, request.command.body, self._live.current
        if header.batch or request.command.code == RequestCode.SEND_BATCH_MESSAGE:
            batch = self._checks.check_batch(checked, body)
            return self._storing.place_batch(header.topic, queue_id, batch), None
        self._checks.check_message(checked, body)
        properties = dict(checked.properties)
        properties.pop(Property.POP_CK, None)
        unique_key = properties.get(Property.UNIQ_KEY) or _unique_ids.next()
        properties[Property.UNIQ_KEY] = unique_key
        properties.update(
            broker_properties(settings.region_id, settings.trace_on, settings.broker_cluster_name)
        )
        placed = self._storing.place(header.topic, queue_id, header.flag, body, properties)
        return placed, unique_key

    async def _answer_when_durable(self, event: SendEvent, reply: SendMessageReply) -> Reply:
        """Reply when the group commit that covers this message is done."""
        durable = await self._storing.durable()
        code = ResponseCode.SUCCESS if durable else ResponseCode.FLUSH_DISK_TIMEOUT
        return self._answered(event, reply, code)

    def _answered(self, event: SendEvent, header: SendMessageReply, code: int) -> Reply:
        """Tell the hooks and build the reply."""
        if self._hooks.after_send:
            stored = replace(event, code=code, queue_offset=header.queue_offset)
            for hook in self._hooks.after_send:
                hook(stored)
        return Reply(header, code=code, ext=self.reply_fields())

    def reply_fields(self) -> dict[str, str]:
        """Return what every reply to a send carries beside its own header."""
        settings = self._live.current
        return {
            "MSG_REGION": settings.region_id,
            "TRACE_ON": "true" if settings.trace_on else "false",
        }
