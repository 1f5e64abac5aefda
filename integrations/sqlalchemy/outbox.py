"""Messages that are written in the transaction of what they tell, to be sent when it is done."""

import logging
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    String,
    Table,
    Text,
    and_,
    delete,
    exists,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import mysql

from aerobee.client import ClientError, InvalidMessage, Message
from aerobee.client.message import TOPIC_CHARACTERS_MAX, check_message, check_name
from aerobee.client.sending.due import due
from aerobee.integrations.sqlalchemy.databases import Open, changed, exact
from aerobee.remoting.message.message_id import UniqueIds

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

log = logging.getLogger(__name__)

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
KEY_CHARACTERS_MAX: Final = 255
ERROR_CHARACTERS_MAX: Final = 1_000
PAUSE_MAX_MS: Final = 60_000
"""How long a row that failed waits at most."""


class Claim(NamedTuple):
    """What marks the rows that a relay sends now: whose they are, and until when."""

    relay: str
    until_ms: int


class OutboxRow(NamedTuple):
    """A message of the outbox that is to be sent now."""

    number: int
    message_id: str
    key: str | None
    failures: int
    message: Message


class _Headers(msgspec.Struct, omit_defaults=True):
    """What a message has beside its topic and its body, as its row keeps it."""

    tags: str | None = None
    keys: str = ""
    delay_level: int = 0
    properties: dict[str, str] = {}
    flag: int = 0


class Outbox:
    """Keeps messages in the user's database until a relay has sent them.

        outbox = Outbox(Base.metadata)

        with Session.begin() as session:
            session.add(Order(number=7))
            outbox.add(session, Message("orders", b"7"), key="7")

    The row is there if, and only if, the transaction commits. An `OutboxRelay` sends it, under the
    id that `add` gave it, as often as it takes, and deletes it then: at least once, and where the
    topic has `aerobee.dedup.seconds`, or its consumers an `Inbox`, exactly once. `table` is the
    SQLAlchemy Table, `aerobee_outbox`; make it by `metadata.create_all` or a migration.
    """

    def __init__(self, metadata: MetaData | None = None) -> None:
        """Describe the table; outboxes of one metadata share it."""
        self.table: Table = _table(MetaData() if metadata is None else metadata)
        self._ids = UniqueIds()

    def add(
        self,
        session: Open,
        message: Message,
        *,
        key: str | None = None,
        deliver_at: datetime | None = None,
        delay: timedelta | None = None,
    ) -> str:
        """Write a message in the session's transaction, and return the id that it will have.

        Messages of one topic and `key` are sent in the order in which their transactions wrote
        them, to one queue. `deliver_at` and `delay` are those of `Producer.send`; a delay begins
        when the broker gets it. Raises InvalidMessage for what no broker takes, before anything is
        written; what the database raises.
        """
        check_name("topic", message.topic, TOPIC_CHARACTERS_MAX)
        check_message(message, BODY_BYTES_MAX)
        if key is not None and len(key) > KEY_CHARACTERS_MAX:
            raise InvalidMessage(f"key={key[:40]!r}... has over {KEY_CHARACTERS_MAX} characters")
        if deliver_at is not None or delay is not None:
            message = due(message, deliver_at, delay)
        message_id = self._ids.next()
        message.wire_properties(message_id)  # raises for what cannot be written
        keys = message.keys if isinstance(message.keys, str) else " ".join(message.keys)
        headers = _Headers(
            message.tags, keys, message.delay_level, message.properties, message.flag
        )
        row = {
            "message_id": message_id,
            "topic": message.topic,
            "send_key": key,
            "headers": msgspec.json.encode(headers).decode(),
            "body": message.body,
            "held_until_ms": 0,
            "failures": 0,
        }
        session.execute(insert(self.table).values(row))
        return message_id

    async def add_async(
        self, session: "AsyncSession | AsyncConnection", message: Message, **options: Any
    ) -> str:
        """Do the same in the transaction of an AsyncSession or AsyncConnection."""
        return await session.run_sync(lambda opened: self.add(opened, message, **options))

    # --- for relays ---

    def claim(self, session: Open, claim: Claim, now_ms: int, limit: int) -> bool:
        """Mark up to `limit` of the oldest rows as being sent by a relay; whether there are any.

        Left out are those that another relay holds, or that wait after a failure, and what has the
        key of one of those. What is held for longer than any relay says was marked by a clock that
        has jumped, and is free.
        """
        mine, before = self.table.c, self.table.alias()
        furthest_ms = claim.until_ms + PAUSE_MAX_MS
        held = exists().where(
            before.c.topic == mine.topic,
            before.c.send_key == mine.send_key,
            before.c.number < mine.number,
            before.c.held_until_ms.between(now_ms + 1, furthest_ms),
        )
        free = or_(mine.held_until_ms <= now_ms, mine.held_until_ms > furthest_ms)
        wanted = select(mine.number).where(free, or_(mine.send_key.is_(None), ~held))
        numbers = list(session.execute(wanted.order_by(mine.number).limit(limit)).scalars())
        if not numbers:
            return False
        marked = {"held_until_ms": claim.until_ms, "held_by": claim.relay}
        still_free = update(self.table).where(mine.number.in_(numbers), free)
        return changed(session, still_free.values(marked)) > 0

    def claimed(self, session: Open, claim: Claim) -> list[OutboxRow]:
        """Return what a claim has marked, the oldest first; rows that make no message fail.

        What has the key of an earlier row that another relay has, or that fails, is left for later.
        """
        readable: list[OutboxRow] = []
        found = select(self.table).where(self._of(claim)).order_by(self.table.c.number)
        rows = session.execute(found).all()
        early = self._overtaking(session, claim) if any(row.send_key for row in rows) else set()
        blocked: set[tuple[str, str]] = set()  # topics and keys
        for row in rows:
            if row.number in early or (row.topic, row.send_key) in blocked:
                early.add(row.number)
                continue
            try:
                readable.append(_waiting(row))
            except (msgspec.MsgspecError, ClientError) as error:
                text = f"the row cannot be read: {error}"
                log.error("message_id=%s in the outbox: %s", row.message_id, text)
                self.failed(session, claim, row, text, claim.until_ms)
                if row.send_key is not None:
                    blocked.add((row.topic, row.send_key))
        self.freed(session, claim, early)
        return readable

    def sent(self, session: Open, numbers: list[int]) -> None:
        """Delete the rows of what brokers have."""
        session.execute(delete(self.table).where(self.table.c.number.in_(numbers)))

    def failed(
        self, session: Open, claim: Claim, row: "OutboxRow | Row[Any]", error: str, until_ms: int
    ) -> None:
        """Let a row of a claim wait, and say in it why; one that another relay has by now stays."""
        mine = self.table.c.number == row.number
        values = {
            "held_until_ms": until_ms,
            "failures": row.failures + 1,
            "last_error": _storable(error)[:ERROR_CHARACTERS_MAX],
        }
        session.execute(update(self.table).where(mine, self._of(claim)).values(values))

    def freed(self, session: Open, claim: Claim, numbers: Collection[int]) -> None:
        """Let rows of a claim be claimed by anybody: they were not tried."""
        if numbers:
            mine = self.table.c.number.in_(numbers)
            session.execute(update(self.table).where(mine, self._of(claim)).values(held_until_ms=0))

    def _of(self, claim: Claim) -> "ColumnElement[bool]":
        mine = self.table.c
        return and_(mine.held_by == claim.relay, mine.held_until_ms == claim.until_ms)

    def _overtaking(self, session: Open, claim: Claim) -> set[int]:
        """Return what of a claim has the key of an earlier row that is not of the claim.

        Another relay has marked that at the same time, or it was not there to be seen.
        """
        mine, before = self.table.c, self.table.alias()
        earlier = exists().where(
            before.c.topic == mine.topic,
            before.c.send_key == mine.send_key,
            before.c.number < mine.number,
            or_(
                before.c.held_by.is_(None),
                before.c.held_by != claim.relay,
                before.c.held_until_ms != claim.until_ms,
            ),
        )
        return set(session.execute(select(mine.number).where(self._of(claim), earlier)).scalars())


def _storable(text: str) -> str:
    """Return a text that every database takes: PostgreSQL none with a NUL, nobody half a letter."""
    return text.encode("utf-8", "replace").decode().replace("\0", "?")


def _waiting(row: "Row[Any]") -> OutboxRow:
    headers = msgspec.json.decode(row.headers, type=_Headers)
    message = Message(
        row.topic,
        row.body,
        headers.tags,
        headers.keys,
        headers.delay_level,
        headers.properties,
        headers.flag,
    )
    return OutboxRow(row.number, row.message_id, row.send_key, row.failures, message)


def _table(metadata: MetaData) -> Table:
    known = metadata.tables.get("aerobee_outbox")
    if known is not None:
        return known
    number = BigInteger().with_variant(Integer, "sqlite")  # which counts INTEGER up by itself
    return Table(
        "aerobee_outbox",
        metadata,
        Column("number", number, primary_key=True, autoincrement=True),
        Column("message_id", String(64), nullable=False, unique=True),
        Column("topic", exact(255), nullable=False),
        Column("send_key", exact(KEY_CHARACTERS_MAX)),
        # else of 64 KiB there, which 32 KiB of properties with quotes are as JSON
        Column(
            "headers", Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb"), nullable=False
        ),
        # a length says to MySQL how large a BLOB it has to be, and is too large for SQL Server
        Column(
            "body",
            LargeBinary(BODY_BYTES_MAX).with_variant(LargeBinary(), "mssql"),
            nullable=False,
        ),
        Column("held_until_ms", BigInteger, nullable=False),
        Column("held_by", String(64)),
        Column("failures", Integer, nullable=False),
        Column("last_error", Text),
        sqlite_autoincrement=True,  # else a number that was the last one comes again
    )
