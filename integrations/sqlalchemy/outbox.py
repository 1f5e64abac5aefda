"""Messages that are written in the transaction of what they tell, to be sent when it is done."""

import logging
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

from aerobee.client import ClientError, InvalidMessage, Message
from aerobee.client.message import TOPIC_CHARACTERS_MAX, check_message, check_name
from aerobee.client.sending.due import due
from aerobee.integrations.sqlalchemy.databases import Open, changed
from aerobee.remoting.message.message_id import UniqueIds

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

log = logging.getLogger(__name__)

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
KEY_CHARACTERS_MAX: Final = 255
ERROR_CHARACTERS_MAX: Final = 1_000


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

    def claim(self, session: Open, relay: str, now_ms: int, until_ms: int, limit: int) -> bool:
        """Mark up to `limit` of the oldest rows as being sent by a relay; whether there are any.

        Left out are those that another relay holds, or that wait after a failure, and what has the
        key of one of those.
        """
        mine, before = self.table.c, self.table.alias()
        held = exists().where(
            before.c.topic == mine.topic,
            before.c.send_key == mine.send_key,
            before.c.number < mine.number,
            before.c.held_until_ms > now_ms,
        )
        wanted = select(mine.number).where(
            mine.held_until_ms <= now_ms, or_(mine.send_key.is_(None), ~held)
        )
        numbers = list(session.execute(wanted.order_by(mine.number).limit(limit)).scalars())
        if not numbers:
            return False
        free = and_(mine.number.in_(numbers), mine.held_until_ms <= now_ms)
        claim = update(self.table).where(free).values(held_until_ms=until_ms, held_by=relay)
        return changed(session, claim) > 0

    def claimed(self, session: Open, relay: str, until_ms: int) -> list[OutboxRow]:
        """Return what a claim has marked, the oldest first; rows that make no message fail."""
        mine, readable = self.table.c, []
        found = select(self.table).where(mine.held_by == relay, mine.held_until_ms == until_ms)
        for row in session.execute(found.order_by(mine.number)).all():
            try:
                readable.append(_waiting(row))
            except (msgspec.MsgspecError, ClientError) as error:
                text = f"the row cannot be read: {error}"
                log.error("message_id=%s in the outbox: %s", row.message_id, text)
                self.failed(session, row.number, row.failures, text, until_ms)
        return readable

    def sent(self, session: Open, numbers: list[int]) -> None:
        """Delete the rows of what brokers have."""
        session.execute(delete(self.table).where(self.table.c.number.in_(numbers)))

    def failed(self, session: Open, number: int, failures: int, error: str, until_ms: int) -> None:
        """Let a row that had failed so often wait, and say in it why."""
        row = update(self.table).where(self.table.c.number == number)
        values = {
            "held_until_ms": until_ms,
            "failures": failures + 1,
            "last_error": error[:ERROR_CHARACTERS_MAX],
        }
        session.execute(row.values(values))

    def freed(self, session: Open, numbers: list[int]) -> None:
        """Let rows be claimed by anybody: they were not tried."""
        where = self.table.c.number.in_(numbers)
        session.execute(update(self.table).where(where).values(held_until_ms=0))


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
        Column("topic", String(255), nullable=False),
        Column("send_key", String(KEY_CHARACTERS_MAX)),
        Column("headers", Text, nullable=False),
        Column("body", LargeBinary(BODY_BYTES_MAX), nullable=False),
        Column("held_until_ms", BigInteger, nullable=False),
        Column("held_by", String(64)),
        Column("failures", Integer, nullable=False),
        Column("last_error", Text),
        sqlite_autoincrement=True,  # else a number that was the last one comes again
    )
