"""Requests of ours that wait for their reply on one connection, and the one timer they share."""

import asyncio
import math
from typing import Any, Final, Protocol, TypeAlias

from aerobee.remoting.command import Command
from aerobee.remoting.errors import AerobeeError, CallTimedOut

EXPIRY_GAP_S: Final = 0.02  # between two looks at the calls that wait


class AwaitsReply(Protocol):
    """What waits for a reply: a future, or what takes it at once, and may raise nothing."""

    def done(self) -> bool:
        """Say whether nobody waits any more."""
        ...

    def set_result(self, result: Any, /) -> None:
        """Take the reply."""
        ...

    def set_exception(self, exception: Any, /) -> None:
        """Take word that there is none."""
        ...


# What takes the reply, its deadline in seconds of the loop, the request's code, its time-out,
# whether a brief reply will do.
_Waiting: TypeAlias = tuple[AwaitsReply, float, int, float, bool]


class Calls:
    """Replies awaited; `waiting` has them by the opaque of their request.

    Most calls are answered long before their time is up, and then cost the timer nothing: it is
    set to the earliest deadline only.
    """

    __slots__ = ("_expires_s", "_loop", "_remote", "_timer", "waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, remote: str) -> None:
        self._loop = loop
        self._remote = remote
        self.waiting: dict[int, _Waiting] = {}
        self._expires_s = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def begin(
        self, opaque: int, code: int, timeout_s: float, *, brief: bool = False
    ) -> asyncio.Future[Any]:
        """Wait for the reply to `opaque`; after `timeout_s` the future gets CallTimedOut.

        The future of a `brief` call may get something shorter than a Command for a plain reply.
        """
        reply: asyncio.Future[Any] = self._loop.create_future()
        self.begin_for(reply, opaque, code, timeout_s, brief=brief)
        return reply

    def begin_for(
        self, reply: AwaitsReply, opaque: int, code: int, timeout_s: float, *, brief: bool = False
    ) -> None:
        """Let `reply` wait for the reply to `opaque`, as `begin` does with a future."""
        deadline_s = self._loop.time() + timeout_s
        self.waiting[opaque] = (reply, deadline_s, code, timeout_s, brief)
        if deadline_s < self._expires_s:
            self._expire_at(deadline_s)

    def answer(self, command: Command) -> bool:
        """Hand a reply to who waits for it; False if nobody does any more."""
        waiting = self.waiting.pop(command.opaque, None)
        if waiting is None or waiting[0].done():
            return False
        waiting[0].set_result(command)
        return True

    def answer_briefly(self, opaque: int, reply: object) -> bool:
        """Hand over what stands for a plain reply; False unless such a call waits for it."""
        waiting = self.waiting.get(opaque)
        if waiting is None or not waiting[4]:
            return False
        del self.waiting[opaque]
        if not waiting[0].done():  # else nobody waits any more
            waiting[0].set_result(reply)
        return True

    def taker(self, opaque: int, kind: type) -> AwaitsReply | None:
        """Return what waits for a reply, if it is of a kind, to be given it; it waits no more."""
        waiting = self.waiting.get(opaque)
        if waiting is None or not isinstance(waiting[0], kind) or waiting[0].done():
            return None
        del self.waiting[opaque]
        return waiting[0]

    def forget(self, opaque: int) -> None:
        """Nobody waits for this reply any more."""
        self.waiting.pop(opaque, None)

    def fail(self, error: AerobeeError) -> None:
        """End all the waiting: the connection is gone."""
        for reply, *_ in self.waiting.values():
            if not reply.done():
                reply.set_exception(error)
        self.waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _expire_at(self, deadline_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._expires_s = deadline_s
        self._timer = self._loop.call_at(deadline_s, self._expire)

    def _expire(self) -> None:
        """Fail the calls whose time is up, forget those given up; come back for the next."""
        self._timer = None
        self._expires_s = math.inf
        now_s = self._loop.time()
        earliest_s = math.inf
        for opaque, (reply, deadline_s, code, timeout_s, _) in list(self.waiting.items()):
            if reply.done():
                del self.waiting[opaque]
            elif deadline_s <= now_s:
                del self.waiting[opaque]
                reply.set_exception(
                    CallTimedOut(f"no reply to code {code} from {self._remote} in {timeout_s:g} s")
                )
            else:
                earliest_s = min(earliest_s, deadline_s)
        if self.waiting:
            self._expire_at(max(earliest_s, now_s + EXPIRY_GAP_S))
