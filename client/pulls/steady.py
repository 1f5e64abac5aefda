"""Pulls that follow each other without a task: each reply is seen to as it comes."""

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

from aerobee.client.cluster.found import FoundReply, TakesFound
from aerobee.remoting.command import Command


class SteadyPulls(TakesFound):
    """Stands for the reply of each pull, as a future does, until one asks for something unusual.

    `go_on` sees to a plain reply and sends the next request in the name of this object; it returns
    False where it has done nothing, and the reply is what `outcome` gives; it calls `rest` where
    no request is on its way any more. Who no longer awaits `outcome`, but has cancelled it, gets
    nothing more. All of it runs in the context of who has made this.
    """

    __slots__ = ("_go_on", "_run", "outcome")

    def __init__(self, go_on: Callable[[Command | FoundReply], bool]) -> None:
        self.outcome: asyncio.Future[Command | FoundReply | None]
        self.outcome = asyncio.get_running_loop().create_future()
        self._go_on = go_on
        self._run = contextvars.copy_context().run

    def done(self) -> bool:
        """Say whether nobody waits for a reply any more."""
        return self.outcome.done()

    def set_result(self, reply: Any) -> None:
        """Take a reply, as it comes from the connection."""
        try:
            if self._run(self._go_on, reply):
                return
        except Exception as error:  # noqa: BLE001 - who waits raises it, not the connection
            self.set_exception(error)
        else:
            self._end(reply.kept() if isinstance(reply, FoundReply) else reply)

    def set_exception(self, error: Exception) -> None:
        """Take word that there will be no reply."""
        if not self.outcome.done():
            self.outcome.set_exception(error)

    def rest(self) -> None:
        """Say that all replies are seen to, and the next pull is not sent yet."""
        self._end(None)

    def _end(self, reply: Command | FoundReply | None) -> None:
        if not self.outcome.done():
            self.outcome.set_result(reply)
