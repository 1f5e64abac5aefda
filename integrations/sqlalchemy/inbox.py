"""Which messages were handled, noted in the transaction of what handling them did."""

import inspect
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import BigInteger, Column, MetaData, Table, delete, insert
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from aerobee.client import ConsumeResult, InvalidUse, Later, ReceivedMessage
from aerobee.integrations.sqlalchemy.databases import (
    Database,
    Open,
    bind_of,
    changed,
    check_database,
    exact,
    is_async,
)
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.message.properties import Property

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

ID_CHARACTERS_MAX: Final = 255
_TELLING: Final = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}
"""Databases that say of an INSERT whether the row was there."""
Effects: TypeAlias = Callable[[Any, ReceivedMessage], Any]
"""A function, plain or async, of a session and a message."""


class _Undone(Exception):
    """Effects have ended without an error, and are not to stay."""

    def __init__(self, answer: object) -> None:
        super().__init__(answer)
        self.answer = answer


class Inbox:
    """Lets each message have its effects in a database once, however often it is delivered.

        inbox = Inbox("billing", Base.metadata)

        @inbox.once(Session)  # a sessionmaker, an async_sessionmaker, or an engine
        async def bill(session, message):
            session.add(Invoice(number=message.body.decode()))

        consumer.subscribe("orders", bill)

    One row for each message is written in the transaction of its effects: both are there, or none.
    A message is known by its group, its topic and the id that its producer gave it (UNIQ_KEY),
    which it keeps when it fails and comes again, and when its producer sends it again. Rows stay
    until `forget`: what is delivered later than that would be handled anew. `table` is the
    SQLAlchemy Table, `aerobee_inbox`; make it by `metadata.create_all` or a migration.
    """

    def __init__(self, group: str, metadata: MetaData | None = None) -> None:
        """Describe the inbox of a consumer group; several may share the metadata and its table."""
        self.group = group
        self.table: Table = _table(MetaData() if metadata is None else metadata)

    def is_new(self, session: Open, message: ReceivedMessage) -> bool:
        """Note a message in the session's transaction; False if it was noted before.

            with Session.begin() as session:
                if inbox.is_new(session, message):
                    session.add(Invoice(number=message.body.decode()))

        Where another transaction has just noted it and not ended, this waits for that, as far as
        the database lets it. Raises what the database raises.
        """
        row = {
            "consumer_group": self.group,
            "topic": message.topic,
            "message_id": identity(message),
            "handled_ms": wall_clock_ms(),
        }
        telling = _TELLING.get(bind_of(session))
        if telling is not None:
            statement: Any = telling(self.table).values(row)
            return changed(session, statement.on_conflict_do_nothing()) == 1
        if isinstance(session, Session):
            session.flush()  # here, as what fails of it tells nothing of the message
        try:
            with session.begin_nested():
                session.execute(insert(self.table).values(row))
        except IntegrityError:
            return False
        return True

    async def is_new_async(
        self, session: "AsyncSession | AsyncConnection", message: ReceivedMessage
    ) -> bool:
        """Do the same in the transaction of an AsyncSession or AsyncConnection."""
        return await session.run_sync(self.is_new, message)

    def once(self, database: Database) -> Callable[[Effects], Callable[[ReceivedMessage], Any]]:
        """Make a handler of a function that takes a session and a message.

        It is called within a transaction of `database`, and not called for what was handled before.
        The transaction is committed when it returns, and rolled back where it raises, or says
        `ConsumeResult.LATER` or `Later(...)`: the message comes again. An async maker of sessions
        needs an async function, a plain one a plain function, which runs in a thread. Raises
        InvalidUse where they do not fit, and for a maker of neither kind; the handler does, with
        no effects, where a plain function returns something to await.
        """
        check_database(database)

        def decorate(effects: Effects) -> Callable[[ReceivedMessage], Any]:
            if is_async(database) != inspect.iscoroutinefunction(effects):
                kind = "an async" if is_async(database) else "a plain"
                raise InvalidUse(f"{effects!r} must be {kind} function, as the database is")
            make = self._asynchronous if is_async(database) else self._plain
            handle = make(database, effects)
            handle.__name__ = getattr(effects, "__name__", "handle")
            handle.__qualname__ = getattr(effects, "__qualname__", "handle")
            handle.__doc__ = effects.__doc__
            return handle

        return decorate

    def _plain(self, database: Any, effects: Effects) -> Callable[[ReceivedMessage], Any]:
        def handle(message: ReceivedMessage) -> Any:
            try:
                with database.begin() as session:
                    if not self.is_new(session, message):
                        return None
                    answer = _checked(effects(session, message), effects)
            except _Undone as undone:
                return undone.answer
            return answer

        return handle

    def _asynchronous(self, database: Any, effects: Effects) -> Callable[[ReceivedMessage], Any]:
        async def handle(message: ReceivedMessage) -> Any:
            try:
                async with database.begin() as session:
                    if not await self.is_new_async(session, message):
                        return None
                    answer = _checked(await effects(session, message), effects)
            except _Undone as undone:
                return undone.answer
            return answer

        return handle

    def forget(self, session: Open, before: datetime) -> int:
        """Delete the rows of what this group handled before a moment; return how many.

        Raises InvalidUse for a datetime without time zone.
        """
        if before.tzinfo is None:
            raise InvalidUse(f"before={before!r} has no time zone")
        mine, at_ms = self.table.c, int(before.timestamp() * 1000)
        where = (mine.consumer_group == self.group, mine.handled_ms < at_ms)
        return changed(session, delete(self.table).where(*where))


def identity(message: ReceivedMessage) -> str:
    """Return the id by which a message is known however often it is sent or delivered.

    One of a producer that gave it none is known by the broker's, which a message that came back
    after a failure has from the first time. Raises InvalidUse for an id that no row takes.
    """
    known = message.properties
    found = known.get(Property.UNIQ_KEY) or known.get(Property.ORIGIN_MESSAGE_ID)
    found = found or message.offset_message_id
    if len(found) > ID_CHARACTERS_MAX:
        raise InvalidUse(f"the id of {message!r:.200} has over {ID_CHARACTERS_MAX} characters")
    return found


def _checked(answer: object, effects: Effects) -> object:
    """Return what effects answered; undo the transaction of those that are to come again."""
    if answer is ConsumeResult.LATER or isinstance(answer, Later):
        raise _Undone(answer)
    if inspect.isawaitable(answer):  # as of `lambda session, message: effects(session, message)`
        if inspect.iscoroutine(answer):
            answer.close()
        raise InvalidUse(f"{effects!r} returned {answer!r:.80}, which nobody awaits here")
    return answer


def _table(metadata: MetaData) -> Table:
    known = metadata.tables.get("aerobee_inbox")
    if known is not None:
        return known
    return Table(
        "aerobee_inbox",
        metadata,
        Column("consumer_group", exact(255), primary_key=True),
        Column("topic", exact(255), primary_key=True),
        Column("message_id", exact(ID_CHARACTERS_MAX), primary_key=True),
        Column("handled_ms", BigInteger, nullable=False, index=True),
    )
