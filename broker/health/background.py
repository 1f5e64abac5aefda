"""What rooms do beside the requests: kept going until the stop."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, cast

from aerobee.broker.health.faults import Faults
from aerobee.broker.room import Room, Work
from aerobee.remoting.net.tasks import Tasks


class Background(Room):
    """Runs the work of rooms, in whose list it stands behind them, and what requests leave to wait.

    All of it goes on until `stop`: a round that raises is counted and the next one comes; a task
    that ends all the same, by whatever, is counted and begins anew after a second (`Tasks.keep`,
    `aerobee_faults_total`).
    """

    def __init__(self, faults: Faults, rooms: list[Room]) -> None:
        self.faults = faults
        self._rooms = rooms
        self._tasks = Tasks(faults.caught)
        self._added: list[Room] = []
        self._begun = asyncio.Event()

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any] | None:
        """Run what has to wait for something; its failure is counted. None after the stop."""
        return self._tasks.start(work)

    def add(self, room: Room) -> None:
        """Put a room before this one in the list of a broker that serves; start it, do its work.

        That may be while the broker starts: then its work begins with that of the others.
        """
        self._rooms.insert(self._rooms.index(self), room)
        self._added.append(room)

        async def begin() -> None:
            await room.start()
            await self._begun.wait()
            self._keep(room)

        self.run(begin())

    async def start(self) -> None:
        """Begin the work of all rooms, which have started."""
        for room in self._rooms:
            if room not in self._added:
                self._keep(room)
        self._begun.set()

    async def stop(self) -> None:
        """End all of it."""
        await self._tasks.close()

    def _keep(self, room: Room) -> None:
        for work in room.background():
            if work.interval_s is None:
                self._tasks.keep(
                    cast(Callable[[], Coroutine[Any, Any, None]], work.call), work.name
                )
            elif inspect.iscoroutinefunction(work.call):
                self._tasks.every(int(work.interval_s * 1000), work.call, work.name)
            else:
                self._tasks.keep(partial(self._rounds, work, work.interval_s), work.name)

    async def _rounds(self, work: Work, interval_s: float) -> None:
        """Call it again and again; what it raises is counted and does not end it."""
        while True:
            await asyncio.sleep(interval_s)
            try:
                work.call()
            except Exception as error:  # noqa: BLE001  the next round comes all the same
                name = getattr(work.call, "__qualname__", str(work.call))
                self.faults.caught("periodic work", error, work=name)
