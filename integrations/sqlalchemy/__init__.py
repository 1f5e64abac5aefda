"""Exactly-once effects in a database of SQLAlchemy: an inbox, offsets beside effects, an outbox."""

from aerobee.remoting.extras import need

try:
    from aerobee.integrations.sqlalchemy.databases import Database
    from aerobee.integrations.sqlalchemy.inbox import Inbox
    from aerobee.integrations.sqlalchemy.offsets import Offsets
    from aerobee.integrations.sqlalchemy.outbox import Outbox
    from aerobee.integrations.sqlalchemy.relay import OutboxProducer, OutboxRelay, RelaySettings
except ModuleNotFoundError:
    need("sqlalchemy", "aerobee.integrations.sqlalchemy")
    raise

__all__ = [
    "Database",
    "Inbox",
    "Offsets",
    "Outbox",
    "OutboxProducer",
    "OutboxRelay",
    "RelaySettings",
]
