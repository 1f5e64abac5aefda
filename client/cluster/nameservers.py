"""The nameservers of a cluster, which all know the same; one that is silent holds nobody up."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from aerobee.client.cluster.address_server import AddressServer, is_address_server
from aerobee.client.cluster.connections import Connections
from aerobee.remoting.errors import AerobeeError, CallTimedOut, Unavailable

T = TypeVar("T")

PATIENCE_S: Final = 0.5  # then another one is asked as well


class Nameservers:
    """Who is asked of them: the one that answered last, the next one when it fails or is silent.

    Which one is the first of all is left to chance, unless they are asked `in_order`. `addresses`
    may change: where `namesrv` is the URL of an address server, they are what that answers, for
    the unit of that name.
    """

    def __init__(
        self,
        connections: Connections,
        namesrv: Sequence[str],
        unit_name: str = "",
        *,
        in_order: bool = False,
    ) -> None:
        self.connections = connections
        self._given = ";".join(namesrv)
        self.addresses = list(namesrv)
        self.answered = ""  # who was the last to answer
        self.address_server: AddressServer | None = None
        if is_address_server(tuple(namesrv)):
            self.address_server = AddressServer(self.addresses.pop(), unit_name, self.addresses)
        self._first = 0 if in_order else random.randrange(1 << 16)

    def __str__(self) -> str:
        return ";".join(self.addresses) or self._given

    async def ask(self, question: Callable[[str], Coroutine[Any, Any, T]]) -> T:
        """Return what the first one answers; `question` asks one of them, by its address.

        A silent one may still answer, for as long as no other does. Raises Unavailable, with what
        all of them have failed with.
        """

        async def ask_one(address: str) -> T:
            try:
                return await question(address)
            except CallTimedOut as error:  # it may be half open, for minutes
                self.connections.drop(address, str(error))
                raise

        if self.address_server is not None:
            await self.address_server.find()
        known = list(self.addresses)
        first = self._first % len(known) if known else 0
        if self.answered in known:
            first = known.index(self.answered)
        left = iter([*known[first:], *known[:first]])
        waiting: dict[asyncio.Task[T], str] = {}
        problems: list[str] = []
        try:
            while (address := next(left, None)) is not None or waiting:
                if address is not None:
                    waiting[asyncio.create_task(ask_one(address))] = address
                patience_s = PATIENCE_S if address is not None else None
                done, _ = await asyncio.wait(
                    waiting, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED
                )
                for task in [each for each in waiting if each in done]:
                    address = waiting.pop(task)
                    try:
                        answer = task.result()
                    except AerobeeError as error:
                        problems.append(str(error))
                    else:
                        self.answered = address
                        return answer
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        raise Unavailable("; ".join(problems) or "there is nobody to ask")
