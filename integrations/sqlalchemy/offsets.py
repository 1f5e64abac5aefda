"""How far a group is in each queue, kept in the transaction of what consuming did."""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    MetaData,
    Table,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from aerobee.client import InvalidUse, LitePullConsumer, MessageQueue, ReceivedMessage
from aerobee.integrations.sqlalchemy.databases import (
    Database,
    Open,
    changed,
    check_database,
    exact,
    is_async,
    passes,
    transact,
)

log = logging.getLogger(__name__)

Effects: TypeAlias = Callable[[Any, list[ReceivedMessage]], Any]
"""A function, plain or async, of a session and messages of one queue."""
PAUSE_S: Final = 0.1  # after the first failure of the database, then twice as long each time
PAUSE_MAX_S: Final = 2.0
LOOK_MS: Final = 1_000  # between two looks at which queues are ours, where no message comes


class _Elsewhere(Exception):
    """The row is not as this consumer left it: somebody else has gone on."""


class Offsets:
    """Consumes so that effects in a database and the offset behind them are one transaction.

        offsets = Offsets(Base.metadata)

        async def bill(session, messages):
            session.add_all(Invoice(number=each.body.decode()) for each in messages)

        async def work(consumer):
            await offsets.consume(consumer, Session, bill)

        asyncio.run(consumer.run(work))

    The table, `aerobee_offsets`, has one row for a group and queue. The database has the last word:
    a queue that is taken is read on where its row says, whatever the broker was told, and the row
    moves only from where this consumer knows it to be, so that two members that believe to own a
    queue cannot both have effects. The broker's offsets, by auto-commit, follow for those who look.

    An operator's reset of the group therefore changes nothing; `move` does. Rows of a topic that is
    deleted have to be deleted as well, by `forget`: offsets begin at 0 again there.
    """

    def __init__(self, metadata: MetaData | None = None) -> None:
        """Describe the table, `self.table`; make it by `metadata.create_all` or a migration."""
        self.table: Table = _table(MetaData() if metadata is None else metadata)

    def read(self, session: Open, group: str, queue: MessageQueue) -> int | None:
        """Return the offset of the next message of a queue; None where the group has none."""
        offset: int | None = session.execute(
            select(self.table.c.next_offset).where(*self._row(group, queue))
        ).scalar_one_or_none()
        return offset

    def move(self, session: Open, group: str, queue: MessageQueue, offset: int) -> None:
        """Let a group go on elsewhere when it takes the queue next, or its next batch fails."""
        if not changed(
            session,
            update(self.table).where(*self._row(group, queue)).values(next_offset=offset),
        ):
            session.execute(insert(self.table).values(_values(group, queue, offset)))

    def forget(self, session: Open, topic: str, group: str | None = None) -> int:
        """Delete the rows of a topic, of one group or all; return how many."""
        where = [self.table.c.topic == topic]
        if group is not None:
            where.append(self.table.c.consumer_group == group)
        return changed(session, delete(self.table).where(*where))

    async def consume(
        self,
        consumer: LitePullConsumer,
        database: Database,
        effects: Effects,
        *,
        patience_ms: int = 60_000,
    ) -> None:
        """Poll, call `effects` with a session and each batch, and commit, until it is cancelled.

        `LitePullConsumer.run` cancels it when the process is to end, between two batches. A batch
        is of one queue, in order, without what the row says is done. What `effects` raises, this
        raises: the batch comes again. While the database is locked or cannot be reached, and after
        a deadlock or a conflict of transactions, the batch waits and is tried again, up to
        `patience_ms`; then that error is raised. Raises InvalidUse where `effects` is not async as
        the database is, or plain as it is, and for a database that is none.
        """
        check_database(database)
        if is_async(database) != inspect.iscoroutinefunction(effects):
            kind = "an async" if is_async(database) else "a plain"
            raise InvalidUse(f"{effects!r} must be {kind} function, as the database is")
        reading = _Reading(self, consumer, database, effects, patience_ms / 1000)
        while True:
            await reading.begin_queues()
            if messages := await consumer.poll(LOOK_MS):
                await reading.take(messages)

    def advance(
        self, session: Open, group: str, queue: MessageQueue, known: int | None, offset: int
    ) -> None:
        """Move a row from where it is known to be; raises _Elsewhere if it is not there."""
        if known is None:
            try:
                session.execute(insert(self.table).values(_values(group, queue, offset)))
            except IntegrityError:
                raise _Elsewhere from None
            return
        row = (*self._row(group, queue), self.table.c.next_offset == known)
        if changed(session, update(self.table).where(*row).values(next_offset=offset)) != 1:
            raise _Elsewhere

    def _row(self, group: str, queue: MessageQueue) -> tuple[Any, ...]:
        mine = self.table.c
        return (
            mine.consumer_group == group,
            mine.topic == queue.topic,
            mine.broker == queue.broker_name,
            mine.queue_id == queue.queue_id,
        )


class _Place:
    """Where a queue is: what its row says, and the offset that is consumed next."""

    __slots__ = ("next", "row")

    def __init__(self, row: int | None, following: int) -> None:
        self.row = row
        self.next = following


class _Reading:
    """One consumer's way through its queues."""

    def __init__(
        self,
        offsets: Offsets,
        consumer: LitePullConsumer,
        database: Database,
        effects: Effects,
        patience_s: float,
    ) -> None:
        self._offsets = offsets
        self._consumer = consumer
        self._database = database
        self._effects = effects
        self._patience_s = patience_s
        self._places: dict[MessageQueue, _Place] = {}  # of the queues that are ours
        self._begun: set[MessageQueue] = set()  # whose rows were looked at
        self._of_effects: Exception | None = None  # what they raised last
        consumer.on_queues_changed(self._shared)

    async def begin_queues(self) -> None:
        """Read the queues that are new where their rows say, before a message of them comes.

        Of one without a row, and of one whose row the broker does not have, the first batch
        decides.
        """
        for queue in self._consumer.assignment():
            if queue in self._begun:
                continue
            try:
                row = await self._row(queue)
            except Exception as error:
                if not passes(error):
                    raise
                return  # the batch that comes tells of it
            self._begun.add(queue)
            if row is not None:
                with contextlib.suppress(InvalidUse):
                    await self._consumer.seek(queue, row)
                    self._places[queue] = _Place(row, row)

    async def take(self, messages: list[ReceivedMessage]) -> None:
        """Have the effects of a batch, or go to where its queue has to be read."""
        queue, pause_s, waited_s = messages[0].queue, PAUSE_S, 0.0
        while True:
            try:
                if (place := await self._place(messages)) is not None:
                    await self._commit(messages, place)
                return
            except _Elsewhere:
                log.warning("another member was faster, its word counts %s", self._named(messages))
            except Exception as error:
                if not self._waits_for(error) or waited_s >= self._patience_s:
                    raise
                if not waited_s:
                    named = self._named(messages)
                    log.warning("the database fails, a batch waits %s error=%s", named, error)
                await asyncio.sleep(pause_s)
                waited_s, pause_s = waited_s + pause_s, min(2 * pause_s, PAUSE_MAX_S)
            self._places.pop(queue, None)  # what was committed is in the row alone
            if queue not in self._consumer.assignment():
                return

    def _waits_for(self, error: Exception) -> bool:
        """Whether a batch waits for it to pass: the database's, not the network of effects."""
        return passes(error) and not (error is self._of_effects and isinstance(error, OSError))

    async def _place(self, messages: list[ReceivedMessage]) -> _Place | None:
        """Return where the batch's queue is; None where the batch is not what comes next."""
        queue, first = messages[0].queue, messages[0].queue_offset
        place = self._places.get(queue)
        if place is not None and first >= place.next:
            return place
        row = await self._row(queue)
        if row is not None and row != first:
            place = await self._go_to(row, messages)
            if place is None:
                return None
        else:
            place = _Place(row, first)
        self._places[queue] = place
        self._begun.add(queue)
        return place

    async def _row(self, queue: MessageQueue) -> int | None:
        group, read = self._consumer.group, self._offsets.read
        return await transact(self._database, lambda opened: read(opened, group, queue))

    async def _go_to(self, row: int, messages: list[ReceivedMessage]) -> _Place | None:
        """Read a queue where its row says, or as near as the broker has it; None: it is lost."""
        queue, first = messages[0].queue, messages[0].queue_offset
        try:
            await self._consumer.seek(queue, row)
            self._places[queue] = _Place(row, row)
            return None
        except InvalidUse:
            if queue not in self._consumer.assignment():
                return None
        oldest = messages[0].queue_offset_min
        if row < first if oldest is None else row < oldest:
            named = self._named(messages)
            log.error("messages have expired that were not consumed, from %d on %s", row, named)
            await self._consumer.seek_to_begin(queue)
            self._places[queue] = _Place(row, row)
            return None
        log.error("the queue is shorter than its row, %d, says %s", row, self._named(messages))
        return _Place(row, first)

    async def _commit(self, messages: list[ReceivedMessage], place: _Place) -> None:
        """Have the effects and move the row, in one transaction."""
        queue, offset = messages[0].queue, messages[-1].queue_offset + 1
        group, effects = self._consumer.group, self._effects

        def advance(session: Open) -> None:
            self._offsets.advance(session, group, queue, place.row, offset)

        def plain(session: Open) -> None:
            advance(session)
            with self._effects_raise():
                effects(session, messages)

        if is_async(self._database):
            database: Any = self._database
            async with database.begin() as session:
                await session.run_sync(advance)
                with self._effects_raise():
                    await effects(session, messages)
        else:
            await transact(self._database, plain)
        place.row = place.next = offset

    @contextlib.contextmanager
    def _effects_raise(self) -> Iterator[None]:
        self._of_effects = None
        try:
            yield
        except Exception as error:
            self._of_effects = error
            raise

    def _shared(self, topic: str, queues: list[MessageQueue], mine: list[MessageQueue]) -> None:
        """Forget where the queues were that are ours no longer."""
        for queue in [each for each in self._begun if each.topic == topic and each not in mine]:
            self._begun.discard(queue)
            self._places.pop(queue, None)

    def _named(self, messages: list[ReceivedMessage]) -> str:
        queue = messages[0].queue
        return f"group={self._consumer.group} queue={queue} offset={messages[0].queue_offset}"


def _values(group: str, queue: MessageQueue, offset: int) -> dict[str, Any]:
    return {
        "consumer_group": group,
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queue_id": queue.queue_id,
        "next_offset": offset,
    }


def _table(metadata: MetaData) -> Table:
    known = metadata.tables.get("aerobee_offsets")
    if known is not None:
        return known
    return Table(
        "aerobee_offsets",
        metadata,
        Column("consumer_group", exact(255), primary_key=True),
        Column("topic", exact(255), primary_key=True),
        Column("broker", exact(255), primary_key=True),
        Column("queue_id", Integer, primary_key=True, autoincrement=False),
        Column("next_offset", BigInteger, nullable=False),
    )
