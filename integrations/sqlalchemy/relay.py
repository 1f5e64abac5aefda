"""Sends what is in an outbox, each message under the id that it has there."""

import asyncio
import logging
import uuid
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from sqlalchemy.exc import SQLAlchemyError

from aerobee.client import ClientError, InvalidSetting, InvalidUse, Message, Producer, SendResult
from aerobee.client.instance import stopping
from aerobee.client.message import check_message
from aerobee.integrations.sqlalchemy.databases import (
    Database,
    Open,
    check_database,
    passes,
    transact,
)
from aerobee.integrations.sqlalchemy.outbox import PAUSE_MAX_MS, Claim, Outbox, OutboxRow
from aerobee.remoting.clocks import wall_clock_ms

log = logging.getLogger(__name__)

FAILED_PAUSE_MS: Final = 500  # after a first failure, then twice as long each time
SETTLE_TRIES: Final = 5
SETTLE_PAUSE_S: Final = 0.1  # then twice as long each time


class OutboxProducer(Producer):
    """A producer that sends a message again under the id that it had before.

        async with OutboxProducer("orders-outbox", namesrv="127.0.0.1:9876") as producer:
            await producer.send_as(message_id, Message("orders", b"7"))

    Whoever keeps messages and ids by himself can send until an answer comes: a topic with
    `aerobee.dedup.seconds`, or a consumer with an `Inbox`, takes each once.
    """

    async def send_as(
        self, message_id: str, message: Message, *, key: str | None = None
    ) -> SendResult:
        """Send a message under this id (UNIQ_KEY); otherwise as `send`, and raises what it does."""
        check_message(message, self.settings.body_bytes_max, self.settings.delay_level_max)
        deadline_s = self._deadline_s(None)
        route = self._known_route(message.topic) or await self._route(message.topic, deadline_s)
        outgoing = self._packer.pack(message, message_id)
        if key is None:
            queues, tries_max = route.write_queues, 1 + self.settings.retries_max
            return await self._deliver([message], outgoing, queues, tries_max, deadline_s)
        chosen = self._choice.choose(route, message, None, key, None)
        return await self._deliver([message], outgoing, [chosen], 1, deadline_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """How often an outbox is looked at, and how much of it is sent at a time.

    A row that a relay has taken is another's after `claim_ms`, should the first be dead; let that
    be longer than a send may take (3,000 by default), or two send the same, under one id. Relays
    that share an outbox have the same `claim_ms`, and clocks that differ by less than that.
    """

    batch_messages: int = 64  # on their way together
    interval_ms: int = 200  # between looks at an outbox that is empty; `notify` is faster
    claim_ms: int = 30_000

    def __post_init__(self) -> None:
        for name in ("batch_messages", "interval_ms", "claim_ms"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InvalidSetting(f"{name}={value!r}: it must be a whole number, at least 1")


class OutboxRelay:
    """Sends the messages of an outbox as long as it lives, in their order.

        relay = OutboxRelay(outbox, engine, OutboxProducer(namesrv="127.0.0.1:9876"))
        asyncio.run(relay.run())  # until SIGINT or SIGTERM; or: async with relay: ...

    It starts and closes its producer. One is enough for a database; several share its rows, and
    whoever dies is followed by the others after `RelaySettings.claim_ms`. Messages with one key
    keep their order. What a broker refuses waits, from half a second to a minute, its row says why
    (`failures`, `last_error`), and nothing but its key waits with it.
    """

    def __init__(
        self,
        outbox: Outbox,
        database: Database,
        producer: OutboxProducer,
        settings: RelaySettings | None = None,
    ) -> None:
        """Describe the relay; nothing happens before `start`.

        Raises InvalidUse for a database that is none.
        """
        check_database(database)
        self._outbox = outbox
        self._database = database
        self._producer = producer
        self._settings = settings or RelaySettings()
        self._name = uuid.uuid4().hex
        self._news = asyncio.Event()
        self._ends = False
        self._task: asyncio.Task[None] | None = None

    def notify(self) -> None:
        """Look at the outbox now: something was committed. From the relay's event loop alone."""
        self._news.set()

    async def start(self) -> None:
        """Start the producer and begin; raises InvalidUse when started already."""
        if self._task is not None:
            raise InvalidUse("the relay is started already")
        await self._producer.start()
        self._ends = False
        self._task = asyncio.create_task(self._serve(), name="outbox relay")

    async def close(self) -> None:
        """Let what is on its way end, and close the producer; rows stay for the next relay."""
        task, self._task = self._task, None
        self._ends = True
        self._news.set()
        try:
            if task is not None:
                await task
        finally:
            await self._producer.close()

    async def run(self) -> None:
        """Start, relay until SIGINT or SIGTERM, close, and return."""
        with stopping.stop_signals() as stop:
            async with self:
                await stop.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # --- within ---

    async def _serve(self) -> None:
        troubled = False
        while not self._ends:
            self._news.clear()
            try:
                found = await self.relay_once()
                if troubled:
                    log.info("relaying works again")
                troubled = False
            except Exception as error:  # of drivers, too; it is told, and tried again
                if not troubled:
                    expected = isinstance(error, (SQLAlchemyError, OSError))
                    log.warning("relaying fails error=%s", error, exc_info=not expected)
                found, troubled = 0, True
            if not found and not self._ends:
                try:
                    async with asyncio.timeout(self._settings.interval_ms / 1000):
                        await self._news.wait()
                except TimeoutError:
                    pass

    async def relay_once(self) -> int:
        """Send what waits now, up to `batch_messages`, and return how many rows were tried.

        Raises what the database raises; what was sent and is not deleted is sent again then. A
        deadlock, or a database that is away for a moment, does not lead to that.
        """
        ours_until_s = asyncio.get_running_loop().time() + self._settings.claim_ms / 1000
        now_ms = wall_clock_ms()
        claim = Claim(self._name, now_ms + self._settings.claim_ms)

        def take(session: Open) -> list[OutboxRow]:
            if not self._outbox.claim(session, claim, now_ms, self._settings.batch_messages):
                return []
            return self._outbox.claimed(session, claim)

        waiting = await transact(self._database, take)
        if not waiting:
            return 0
        chains: dict[object, list[OutboxRow]] = defaultdict(list)
        for each in waiting:
            chains[(each.message.topic, each.key) if each.key else each.number].append(each)
        sent: list[int] = []
        failed: list[tuple[OutboxRow, str]] = []
        freed: list[int] = []
        last_s = ours_until_s - self._producer.settings.send_timeout_ms / 1000
        sending = (self._send(chain, last_s, sent, failed, freed) for chain in chains.values())
        await asyncio.gather(*sending)

        def settle(session: Open) -> None:
            self._outbox.sent(session, sent)
            for each, error in failed:
                pause_ms = min(FAILED_PAUSE_MS << min(each.failures, 10), PAUSE_MAX_MS)
                self._outbox.failed(session, claim, each, error, wall_clock_ms() + pause_ms)
            self._outbox.freed(session, claim, freed)

        await self._settle(settle)
        return len(waiting)

    async def _settle(self, settle: Callable[[Open], None]) -> None:
        """Tell the database what became of the rows, which would all be sent again otherwise."""
        for tried in range(SETTLE_TRIES):
            try:
                await transact(self._database, settle)
                return
            except Exception as error:
                if tried + 1 == SETTLE_TRIES or not passes(error):
                    raise
                log.debug("what was sent is not noted yet error=%s", error)
            await asyncio.sleep(SETTLE_PAUSE_S * 2**tried)

    async def _send(
        self,
        chain: list[OutboxRow],
        last_s: float,
        sent: list[int],
        failed: list[tuple[OutboxRow, str]],
        freed: list[int],
    ) -> None:
        """Send messages of one key one after the other, until one fails, or it gets too late."""
        clock = asyncio.get_running_loop()
        for at, each in enumerate(chain):
            if at and clock.time() > last_s:  # another relay may have the rest soon
                freed += [later.number for later in chain[at:]]
                return
            try:
                await self._producer.send_as(each.message_id, each.message, key=each.key)
            except (ClientError, OSError) as error:
                log.warning("not sent from the outbox: %s error=%s", each.message_id, error)
                failed.append((each, str(error)))
                freed += [later.number for later in chain[at + 1 :]]
                return
            sent.append(each.number)
