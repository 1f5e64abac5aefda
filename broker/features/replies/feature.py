"""Replies as a feature: 324 and 325 are handed to who asked, then stored in the reply topic."""

import inspect
import logging
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from aerobee.broker.features.feature import Feature
from aerobee.broker.features.replies.pushing import Pushes, Told
from aerobee.broker.room import Sample
from aerobee.broker.sends.checks import Checked
from aerobee.broker.start.context import Context
from aerobee.remoting.codes import RequestCode, ResponseCode, SysFlag
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.send import (
    AnySend,
    SendMessageReply,
    SendMessageRequest,
    SendMessageRequestV2,
)
from aerobee.remoting.message.compression import is_packed
from aerobee.remoting.message.record import host_address
from aerobee.remoting.net.addresses import format_address
from aerobee.remoting.net.routes import Reply, Request, Routes, answer

log = logging.getLogger(__name__)

STORED_CODES: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)


class Replies(Feature):
    """Request-reply; switched off by `replyPushesMax=0`: then a reply gets code 3.

    How the push went is the answer, as in RocketMQ; what becomes of the stored copy is logged and
    counted, for nobody waits for it.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        settings = context.settings
        self.pushes = Pushes(
            context.consumers.members,
            settings.reply_pushes_max,
            lambda: context.settings.reply_pushes_per_client_max,
        )
        self.on_closed = (self.pushes.forget,)
        self.not_stored = 0
        self._store_host = format_address(*host_address(context.writing.store_host))
        self.answers = Routes("replies")
        self.answers.on(RequestCode.SEND_REPLY_MESSAGE, SendMessageRequest)(self._answer)
        self.answers.on(RequestCode.SEND_REPLY_MESSAGE_V2, SendMessageRequestV2)(self._answer)

    @property
    def metric_help(self) -> Mapping[str, str]:
        """Tell what becomes of replies."""
        return {
            "aerobee_replies_total": "Replies that came to be handed to requesters, by outcome",
            "aerobee_reply_pushes": "Replies on their way to requesters, not answered yet",
            "aerobee_replies_not_stored_total": "Replies of which no copy could be stored",
        }

    def samples(self) -> Iterator[Sample]:
        """Yield how many went which way."""
        for outcome, count in list(self.pushes.outcomes.items()):
            yield Sample("aerobee_replies_total", count, {"outcome": outcome})
        yield Sample("aerobee_reply_pushes", self.pushes.count)
        yield Sample("aerobee_replies_not_stored_total", self.not_stored)

    async def _answer(self, _: object, request: Request[AnySend]) -> Reply | None:
        """Check a reply as any message, hand it over, store it whatever comes of that.

        Nothing but an answer waits for the requester: a replier whose connection was read no more
        meanwhile, or whose body was kept, would pay for others' silence.
        """
        sends = self._context.sends
        hosts = request.connection.remote, self._store_host
        try:
            checked = self._checked(request)
            known = self._context.cluster.announcements.until_known(
                checked.topic, is_new=checked.is_new
            )
            if known is not None:
                await known()
            header = checked.header
            told = self.pushes.begin(header, checked.properties, request.command.body, hosts)
        except RequestError as error:
            return sends.checked.refused(error)
        place = SendMessageReply(msg_id="0", queue_id=max(header.queue_id, 0), queue_offset=0)
        if self._context.settings.store_reply_message_enable:
            place = await self._stored(request, checked) or place
        if told.done():
            return self._outcome(place, told)
        connection, command = request.connection, replace(request.command, body=b"")
        told.add_done_callback(lambda _: answer(connection, command, self._outcome(place, told)))
        return None

    def _outcome(self, place: SendMessageReply, told: Told) -> Reply:
        """Return what a replier is answered: how the push went, and where the copy is."""
        problem = told.result()
        code = ResponseCode.SUCCESS if problem is None else ResponseCode.SYSTEM_ERROR
        fields = self._context.sends.checked.reply_fields()
        return Reply(place, code=code, remark=problem, ext=fields)

    def _checked(self, request: Request[AnySend]) -> Checked:
        """Return a reply that may be handed on; raises RequestError as a send does."""
        checks = self._context.sends.checks
        checked = checks.check_request(request, request.header)
        if request.header.batch:
            raise checks.illegal()  # clients send replies one by one
        body = request.command.body
        checks.check_message(checked, body)
        header = checked.header
        if header.sys_flag & SysFlag.COMPRESSED and not is_packed(body, header.sys_flag):
            # as Go's client sends large ones: nobody could read the copy
            plain = replace(header, sys_flag=header.sys_flag & ~SysFlag.COMPRESSED)
            return replace(checked, header=plain)
        return checked

    async def _stored(self, request: Request[AnySend], checked: Checked) -> SendMessageReply | None:
        """Store a reply like any message; return where it is, None where that failed."""
        outcome = self._context.sends.checked.store_request(request, checked, None)
        reply = await outcome if inspect.iscoroutine(outcome) else outcome
        assert isinstance(reply, Reply)
        if reply.code in STORED_CODES and isinstance(reply.header, SendMessageReply):
            return reply.header
        self.not_stored += 1
        log.warning("reply_not_stored topic=%s reason=%s", checked.header.topic, reply.remark)
        return None


make = Replies
