"""Questions of brokers about half messages: a few are answered at a time, the others wait."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from aerobee.client.received import ReceivedMessage
from aerobee.client.settings import TransactionSettings
from aerobee.client.transactions.listener import TransactionListener, TransactionState
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.headers.transactions import CheckTransactionStateRequest
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.tasks import Tasks

log = logging.getLogger(__name__)


class Check(msgspec.Struct, eq=False):
    """What a broker wants to know; a later question about the same message takes its place."""

    asked: CheckTransactionStateRequest
    message: ReceivedMessage
    connection: Connection

    @property
    def held_bytes(self) -> int:
        """What it holds while it waits."""
        return len(self.message.body) + len(self.message.raw_properties)


Answer = Callable[[Check, TransactionState, str | None], Awaitable[None]]
"""Tells the broker that asked; the text says why nobody knows."""


class Checks:
    """Asks the listener for one check after the other, several at a time, in bounded memory.

    What there is no room for is dropped: its broker asks again, after 30 s by default. A message
    that is asked about again meanwhile is answered once, to the latest question.
    """

    def __init__(
        self, listener: TransactionListener, settings: TransactionSettings, answer: Answer
    ) -> None:
        self._listener = listener
        self._settings = settings
        self._answer = answer
        self._waiting: dict[tuple[str, str], Check] = {}  # by broker and message
        self._waiting_bytes = 0
        self._running: dict[tuple[str, str], Check] = {}
        self._workers = 0
        self._tasks = Tasks()

    def add(self, check: Check) -> None:
        """Have a check answered, or drop it where too many wait."""
        key = check.connection.remote, check.message.message_id
        if (running := self._running.get(key)) is not None:
            running.asked, running.connection = check.asked, check.connection
            return
        if (waiting := self._waiting.get(key)) is not None:
            waiting.asked, waiting.connection = check.asked, check.connection
            return
        settings, held_bytes = self._settings, self._waiting_bytes + check.held_bytes
        if self._waiting and (
            len(self._waiting) >= settings.checks_waiting_max
            or held_bytes > settings.checks_waiting_bytes_max
        ):
            log.warning("check dropped, %d wait already broker=%s message_id=%s",
                        len(self._waiting), *key)  # fmt: skip
            return
        self._waiting[key] = check
        self._waiting_bytes = held_bytes
        if self._workers < settings.check_concurrency:
            self._workers += 1
            if self._tasks.start(self._work(), "transaction checks") is None:
                self._workers -= 1

    async def close(self) -> None:
        """Answer nothing more; running listeners are cancelled."""
        self._waiting.clear()
        self._waiting_bytes = 0
        await self._tasks.close()

    async def _work(self) -> None:
        try:
            while self._waiting:
                key = next(iter(self._waiting))
                check = self._running[key] = self._waiting.pop(key)
                self._waiting_bytes -= check.held_bytes
                try:
                    await self._see_to(check)
                finally:
                    del self._running[key]
        finally:
            self._workers -= 1

    async def _see_to(self, check: Check) -> None:
        message, remark = check.message, None
        state: object = TransactionState.UNKNOWN
        try:
            async with asyncio.timeout(self._settings.check_timeout_ms / 1000):
                state = await self._listener.check(message)
            if not isinstance(state, TransactionState):
                remark = f"check returned {state!r:.100}, which is no TransactionState"
                log.error("transaction check failed message_id=%s: %s", message.message_id, remark)
                state = TransactionState.UNKNOWN
        except Exception as error:
            remark = f"check raised {type(error).__name__}: {error}"
            log.exception("transaction check failed message_id=%s", message.message_id)
        assert isinstance(state, TransactionState)
        try:
            await self._answer(check, state, remark)
        except AerobeeError as error:
            log.warning(
                "answer to a check not sent, the broker asks again broker=%s message_id=%s: %s",
                check.connection.remote,
                message.message_id,
                error,
            )
