"""RESUME_CHECK_HALF_MESSAGE (323): an administrator has a producer asked once more.

A message of TRANS_CHECK_MAX_TIME_TOPIC is stored as a half message again, with no check counted.
Each is resumed once: whether a half message of its transaction lies behind it, whose end that was,
the half topic says.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from aerobee.broker.features.transactions.checking import HalfChecks
from aerobee.broker.features.transactions.ending import Endings
from aerobee.broker.features.transactions.outcomes import stored_since
from aerobee.broker.features.transactions.rights import HasRights, check_resumed
from aerobee.broker.features.transactions.texts import key_of
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import CorruptRecord, RequestError
from aerobee.remoting.headers.transactions import ResumeCheckHalfMessageRequest
from aerobee.remoting.message.message_id import parse_offset_message_id
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.message.record import Record, decode_record
from aerobee.remoting.net.routes import Reply, Request
from aerobee.remoting.words import HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from aerobee.storage.errors import StoreError
from aerobee.storage.store import MessageStore

QUEUE_ID: Final = 0


class Resuming:
    """Resumes one half message after the other."""

    def __init__(self, store: MessageStore, endings: Endings, checks: HalfChecks) -> None:
        self._store = store
        self._endings = endings
        self._checks = checks
        self._one_by_one = asyncio.Lock()

    async def resume(
        self, broker: HasRights | None, request: Request[ResumeCheckHalfMessageRequest]
    ) -> Reply:
        """Ask again about a half message that was given up."""
        try:
            _, _, position = parse_offset_message_id(request.header.msg_id)
            async with self._one_by_one:
                await self._resume(position, lambda half: check_resumed(broker, request, half))
        except (ValueError, CorruptRecord, StoreError, OSError) as error:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR,
                f"Put message back to {HALF_TOPIC} failed. ({error})",
            ) from error
        return await self._endings.durable()

    async def _resume(self, position: int, check: Callable[[Record], None]) -> None:
        """Raise ValueError for what is not to be resumed, and what `check` raises."""
        lookups = self._endings.lookups
        await lookups.warm_record(position)
        lookups.files()  # what is pending is there to be found
        found = self._store.record_at(position)
        record = None if found is None else decode_record(found)
        if record is None or record.topic != TRANS_CHECK_MAX_TIME_TOPIC:
            raise ValueError(f"{TRANS_CHECK_MAX_TIME_TOPIC} has no such message")
        check(record)
        key = key_of(parse_properties(record.properties))
        if self._endings.halves.find(key) is not None:
            return
        queue = self._store.find_queue(HALF_TOPIC, QUEUE_ID)
        if queue is not None:
            named = HALF_TOPIC, QUEUE_ID
            look = partial(stored_since, queue.snapshot(), named, position, record.total_size, key)
            if await lookups.beside(look):
                raise ValueError("it was resumed before, and has ended or was given up since")
        if self._endings.halves.find(key) is None:  # its producer may have sent it again
            self._checks.resume(record)
