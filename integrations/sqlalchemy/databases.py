"""Transactions of a user's database, whichever kind of engine or session it has."""

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from sqlalchemy import Connection, CursorResult, Engine, Executable, String
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionFree
from sqlalchemy.orm import Session, sessionmaker

from aerobee.client import InvalidUse

if TYPE_CHECKING:  # its import needs greenlet
    from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker

    Asynchronous: TypeAlias = AsyncEngine | async_sessionmaker[AsyncSession]

Database: TypeAlias = "Engine | sessionmaker[Session] | Asynchronous"
"""What transactions begin at: an engine, or a maker of sessions, of either kind."""
Open: TypeAlias = Connection | Session
"""An open transaction, as plain code uses it."""

_PASSING_STATES: Final = ("08", "40", "53", "55P03", "57")
"""SQLSTATEs, by how they begin: no connection, a deadlock or a conflict of serializable
transactions, no resources, a lock that is not to be had, a server that goes down or comes up."""

T = TypeVar("T")


def is_async(database: "Database") -> bool:
    """Whether its transactions are awaited; asks for nothing that is not loaded already."""
    loaded: Any = sys.modules.get("sqlalchemy.ext.asyncio")
    return loaded is not None and isinstance(
        database, (loaded.AsyncEngine, loaded.async_sessionmaker)
    )


def check_database(database: "Database") -> None:
    """Raise InvalidUse for what begins no transactions by itself: a session, or a scoped one."""
    if not isinstance(database, (Engine, sessionmaker)) and not is_async(database):
        raise InvalidUse(
            f"{database!r:.200} is no engine and no maker of sessions: write create_engine(...) or"
            " sessionmaker(engine), or their async kinds"
        )


async def transact(database: "Database", work: Callable[[Open], T]) -> T:
    """Do `work` in one transaction, which is committed where it returns; in a thread if it blocks.

    Raises what `work` raises, after a rollback.
    """
    if is_async(database):
        async with database.begin() as opened:  # type: ignore[union-attr]
            return await opened.run_sync(work)
    return await asyncio.to_thread(_transact, database, work)


def _transact(database: Any, work: Callable[[Open], T]) -> T:
    with database.begin() as opened:
        return work(opened)


def passes(error: Exception) -> bool:
    """Whether a database failed in a way that the next try may not: locked, away, a deadlock.

    Drivers disagree on the class of such errors (asyncpg's have but the base of all), and raise
    what the network does where they cannot connect.
    """
    if isinstance(error, (OperationalError, InterfaceError, NoConnectionFree, OSError)):
        return True
    if not isinstance(error, DBAPIError):
        return False
    state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
    known = isinstance(state, str) and state.startswith(_PASSING_STATES)
    return known or error.connection_invalidated


def exact(characters: int) -> String:
    """Return the type of a name's column, by which names differ that differ in a letter's case.

    Databases that take "Orders" for "orders" by default are told not to: brokers do not either.
    """
    bytewise = mysql.VARCHAR(characters, charset="utf8mb4", collation="utf8mb4_bin")
    return (
        String(characters)
        .with_variant(bytewise, "mysql", "mariadb")
        .with_variant(String(characters, "Latin1_General_100_BIN2"), "mssql")
    )


def changed(opened: Open, statement: Executable) -> int:
    """Execute an INSERT, UPDATE or DELETE, and return how many rows that were."""
    result = opened.execute(statement)
    assert isinstance(result, CursorResult)
    return result.rowcount


def bind_of(opened: Open) -> str:
    """Return the name of the database's dialect: sqlite, postgresql ..."""
    if isinstance(opened, Session):
        return opened.get_bind().dialect.name
    return opened.dialect.name
