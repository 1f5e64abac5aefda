"""The checked path of sends: whatever the fast path declines is checked, completed and stored.

The first plain message that passes for a queue puts that queue on the fast path's list.
"""

import random
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from msgspec.structs import replace

from aerobee.broker.sends.checks import Checked, SendChecks
from aerobee.broker.sends.once import DUPLICATE, Keys, Once
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
from aerobee.remoting.message.record import Record
from aerobee.remoting.net.routes import Reply, Request
from aerobee.storage.errors import LogBusy, MessageTooLarge

Outcome = Reply | Coroutine[Any, Any, Reply]
Known = Callable[[], Coroutine[Any, Any, None]]
"""Returns when a topic is on disk and known to every nameserver."""

_unique_ids = UniqueIds()


class Sent(msgspec.Struct, frozen=True):
    """What a request brings, ready to be stored; `keys` where its topic stores a retry once."""

    request: Request[AnySend]
    checked: Checked
    event: SendEvent
    placed: Placed
    unique_key: str | None  # of a single message
    keys: Keys


class CheckedSends:
    """Stores what was checked and answers it; a coroutine where something has to be waited for."""

    def __init__(
        self, live: Live, checks: SendChecks, storing: Storing, hooks: BrokerHooks
    ) -> None:
        self._live = live
        self._checks = checks
        self._storing = storing
        self._once = Once(live, storing)
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
        header, connection = checked.header, request.connection
        queue_id = header.queue_id
        if queue_id < 0:
            queue_id = random.randrange(max(checked.topic.write_queue_nums, 1))
        body_bytes, text = len(request.command.body), header.properties or ""
        event = SendEvent(
            connection, header.producer_group, header.topic, queue_id, text, body_bytes
        )
        for hook in self._hooks.before_send:
            hook(event)
        try:
            sent = self._sent(request, checked, event)
        except StoredBefore as known:
            return self._answer_again(event, checked, known)
        if self._once.watches(header.topic):
            if self._once.may_know(header.topic, sent.keys):
                return self._store_once(sent)
            reply, positions = self._append(sent, sent.placed)
            self._once.note(header.topic, sent.keys, positions, sent.placed.stored_ms)
        else:
            reply, _ = self._append(sent, sent.placed)
        if self._storing.waits:
            return self._answer_when_durable(event, reply)
        return self._answered(event, reply, ResponseCode.SUCCESS)

    def _sent(self, request: Request[AnySend], checked: Checked, event: SendEvent) -> Sent:
        """Place what was sent, once it is checked."""
        header, batch = checked.header, _is_batch(request, checked.header)
        try:
            placed, unique_key = self._place(request, checked, event.queue_id, batch=batch)
        except MessageTooLarge as error:
            raise self._checks.illegal() from error
        keys: Keys = ()
        if self._once.watches(header.topic):
            one_record = placed.set_flags & SysFlag.INNER_BATCH
            batch = batch and not one_record
            keys = self._once.keys(placed, batch=batch, sent=checked.properties)
        return Sent(request, checked, event, placed, unique_key, keys)

    def _append(self, sent: Sent, placed: Placed) -> tuple[SendMessageReply, list[int]]:
        """Append messages of a request; return the answer to them, and where they are."""
        header, topic = sent.checked.header, sent.checked.topic
        multi_tags = topic.topic_filter_type == "MULTI_TAG"
        sys_flag = header.sys_flag | (SysFlag.MULTI_TAGS if multi_tags else 0)
        try:
            positions, offset = self._storing.append(
                placed, sent.request.connection.host_bytes, header.born_timestamp,
                sys_flag, header.reconsume_times or 0,
            )  # fmt: skip
        except MessageTooLarge as error:
            raise self._checks.illegal() from error
        reply = SendMessageReply(
            msg_id=self._storing.message_ids(positions),
            queue_id=sent.event.queue_id,
            queue_offset=offset,
            transaction_id=sent.unique_key,
        )
        if placed.reply:
            reply = replace(reply, **placed.reply)
        own = placed.queue.name == header.topic or placed.cleared_flags  # a half: checked likewise
        if own and not multi_tags and not self._hooks.watch_sends:
            queue = self._storing.queues.get(header.topic, sent.event.queue_id)
            self._storing.queues.admit(queue, topic, self._live.current.broker_permission)
        return reply, positions

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

    async def _store_once(self, sent: Sent) -> Reply:
        """Store of a request what was not stored before; the answer is the first one's."""
        try:
            try:
                return await self._stored_once(sent)
            except LogBusy:
                await self._storing.room_prepared()
                return await self._stored_once(self._checked_again(sent))
        except StoredBefore as known:  # a half that came again while this one waited
            outcome = self._answer_again(sent.event, sent.checked, known)
            return outcome if isinstance(outcome, Reply) else await outcome
        except LogBusy:
            return self.refused(busy())
        except RequestError as error:
            return self.refused(error)

    async def _stored_once(self, sent: Sent) -> Reply:
        topic, found = sent.checked.header.topic, dict[str, Record]()
        while await self._once.learn(topic, sent.keys, found):
            sent = self._checked_again(sent)  # the topic may be another by now
        split, positions = self._once.split(sent.keys, found), list[int]()
        reply = None
        if split.fresh:
            messages = [sent.placed.messages[place] for place in split.fresh]
            reply, positions = self._append(sent, replace(sent.placed, messages=messages))
            keys = [sent.keys[place] for place in split.fresh]
            self._once.note(topic, keys, positions, sent.placed.stored_ms)
        again = len(split.fresh) < len(sent.keys)
        if again:
            self._once.count(topic)
        answer = self._once.answer(reply, sent.keys, found, split, positions)
        durable = not self._storing.waits or await self._storing.durable()
        code = ResponseCode.SUCCESS if durable else ResponseCode.FLUSH_DISK_TIMEOUT
        return self._answered(sent.event, answer, code, again=again)

    def _checked_again(self, sent: Sent) -> Sent:
        """Return what was sent as it is to be stored now, after a wait."""
        checked = self._checks.check_request(sent.request, sent.checked.header)
        return self._sent(sent.request, checked, sent.event)

    def _place(
        self, request: Request[AnySend], checked: Checked, queue_id: int, *, batch: bool
    ) -> tuple[Placed, str | None]:
        """Complete what was sent, once it is checked; with the unique key of a single message."""
        header, body, settings = checked.header, request.command.body, self._live.current
        if batch:
            messages = self._checks.check_batch(checked, body)
            if (batches := self._storing.inner_batches) is not None and (
                inner := batches.inner(checked.topic, queue_id, checked.properties, len(messages))
            ):
                added = broker_properties(
                    settings.region_id, settings.trace_on, settings.broker_cluster_name
                )
                placed = self._storing.place_inner_batch(inner, header.flag, body, added)
                return placed, inner.key
            return self._storing.place_batch(header.topic, queue_id, messages), None
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

    def _answered(
        self, event: SendEvent, header: SendMessageReply, code: int, *, again: bool = False
    ) -> Reply:
        """Tell the hooks and build the reply."""
        if self._hooks.after_send:
            stored = replace(event, code=code, queue_offset=header.queue_offset)
            for hook in self._hooks.after_send:
                hook(stored)
        fields = self.reply_fields()
        return Reply(header, code=code, ext={**fields, **DUPLICATE} if again else fields)

    def reply_fields(self) -> dict[str, str]:
        """Return what every reply to a send carries beside its own header."""
        settings = self._live.current
        return {
            "MSG_REGION": settings.region_id,
            "TRACE_ON": "true" if settings.trace_on else "false",
        }


def _is_batch(request: Request[AnySend], header: AnySend) -> bool:
    return bool(header.batch) or request.command.code == RequestCode.SEND_BATCH_MESSAGE
