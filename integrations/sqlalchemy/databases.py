"""Transactions of a user's database, whichever kind of engine or session it has."""

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sqlalchemy import Connection, CursorResult, Engine, Executable
from sqlalchemy.orm import Session, sessionmaker

if TYPE_CHECKING:  # its import needs greenlet
    from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker

    Asynchronous: TypeAlias = AsyncEngine | async_sessionmaker[AsyncSession]

Database: TypeAlias = "Engine | sessionmaker[Session] | Asynchronous"
"""What transactions begin at: an engine, or a maker of sessions, of either kind."""
Open: TypeAlias = Connection | Session
"""An open transaction, as plain code uses it."""

T = TypeVar("T")


def is_async(database: "Database") -> bool:
    """Whether its transactions are awaited; asks for nothing that is not loaded already."""
    loaded: Any = sys.modules.get("sqlalchemy.ext.asyncio")
    return loaded is not None and isinstance(
        database, (loaded.AsyncEngine, loaded.async_sessionmaker)
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
