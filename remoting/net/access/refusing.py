"""Telling who is refused: at once, or later, where his address was wrong too often."""

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from aerobee.remoting.command import Command
from aerobee.remoting.errors import RequestError
from aerobee.remoting.net.access.guard import Refusal
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.reading import STOP_REFUSED
from aerobee.remoting.net.routes import answer, failure

OnRefused = Callable[[Connection, Command, RequestError], None] | None


def refuse(
    connection: Connection, command: Command, error: RequestError, on_refused: OnRefused = None
) -> None:
    """Answer a request that is not served; meanwhile nothing more is read of who has to wait.

    `on_refused` hears of it first.
    """
    if on_refused is not None:
        on_refused(connection, command, error)
    delay_s = error.delay_s if isinstance(error, Refusal) else 0.0
    if not delay_s:
        answer(connection, command, failure(command, error))
        return
    connection.reading.stop(STOP_REFUSED)
    kept = replace(command, body=b"", ext={})  # who waits takes no memory
    asyncio.get_running_loop().call_later(delay_s, _refuse, connection, kept, error)


def _refuse(connection: Connection, command: Command, error: RequestError) -> None:
    if not connection.closed:
        answer(connection, command, failure(command, error))
        connection.reading.resume(STOP_REFUSED)
