"""When a send that has failed is tried again: elsewhere at once, there after a pause."""

import asyncio
from collections.abc import Callable, Sequence
from math import ceil
from time import monotonic
from typing import Final, NamedTuple, NoReturn

from aerobee.client.cluster.outages import Outages
from aerobee.client.errors import SendFailed
from aerobee.client.message import MessageQueue
from aerobee.remoting.errors import AerobeeError, ConnectionLost, NotConnected

PAUSE_MIN_S: Final = 0.05  # doubled each time ...
PAUSE_MAX_S: Final = 0.8  # ... up to this
TICK_S: Final = 0.05  # pauses end together: a thousand sends that wait make one connection a tick


class Pauses:
    """Pauses of 50 ms, 100, 200 ... 800, spread over the time that is left until a deadline."""

    __slots__ = ("_deadline_s", "_next_s")

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._next_s = PAUSE_MIN_S

    async def wait(self) -> bool:
        """Wait for the next pause; False where the time is up before anything can be tried."""
        now_s = monotonic()
        left_s = self._deadline_s - now_s
        if left_s <= 0:
            return False
        pause_s = min(self._next_s, max(left_s / 2, PAUSE_MIN_S))
        self._next_s = min(2 * self._next_s, PAUSE_MAX_S)
        until_s = min(ceil((now_s + pause_s) / TICK_S) * TICK_S, self._deadline_s)
        await asyncio.sleep(until_s - now_s)
        return monotonic() < self._deadline_s


class FirstAttempt(NamedTuple):
    """One that has failed already, in the plain way: where, why, and when the send began."""

    queue: MessageQueue
    error: AerobeeError
    began_s: float  # of time.monotonic


class AttemptLimits(NamedTuple):
    """How often, and until when, one send is tried."""

    tries_max: int  # that a broker may have got; 1 where the queue was chosen
    retries_max: int  # after a lost connection where the queue was chosen; 0: nothing waits
    began_s: float
    deadline_s: float


class Attempts:
    """The attempts of one send after its first one has failed.

    Those that find no connection are no word of any broker: they are made again until the time is
    up, unless no retries are wanted. `may_retry` tells which other failures are worth another one.
    A chosen queue has one broker, which has to be asked again only where it may have been started
    anew: where the connection was lost.
    """

    def __init__(
        self,
        topic: str,
        limits: AttemptLimits,
        may_retry: Callable[[Exception], bool],
        outages: Outages,
    ) -> None:
        self.brokers: list[str] = []
        self._topic = topic
        self._limits = limits
        self._may_retry = may_retry
        self._outages = outages
        self._tries_left = limits.tries_max
        self._losses_left = limits.retries_max if limits.tries_max == 1 else 0
        self._is_stored = False
        self._last: AerobeeError | None = None
        self._reasons: dict[str, AerobeeError] = {}  # the last one of each broker
        self._round: set[str] = set()  # brokers that were tried since the last pause
        self._pauses = Pauses(limits.deadline_s)

    async def another(
        self, queue: MessageQueue, failure: AerobeeError | None, queues: Sequence[MessageQueue]
    ) -> bool:
        """Note an attempt that failed, or stored badly; True when the next one may be made.

        It has waited then where no broker of `queues` was left that had not just been tried.
        """
        broker = queue.broker_name
        self.brokers.append(broker)
        time_is_up = monotonic() >= self._limits.deadline_s
        self._is_stored = self._is_stored or failure is None
        if failure is not None:
            self._last = failure
            if not (time_is_up and broker in self._reasons):
                self._reasons[broker] = failure
        if not self._goes_on(failure) or time_is_up:
            return False
        if failure is not None and not isinstance(failure, NotConnected):  # told by BrokerNews
            self._outages.failed(sending_to(queue), failure)
        self._round.add(broker)
        if any(each.broker_name not in self._round for each in queues):
            return True
        self._round.clear()
        return await self._pauses.wait()

    def raise_last(self) -> NoReturn:
        """Raise what the caller is to get: no attempt is left, and none has stored the message."""
        failure = self._last
        assert failure is not None
        if self._limits.tries_max == 1:
            raise self._reasons[self.brokers[-1]]
        if not (self._may_retry(failure) or isinstance(failure, NotConnected)):
            raise failure
        took_ms = round((monotonic() - self._limits.began_s) * 1000)
        raise SendFailed(self._topic, self.brokers, took_ms, self._reasons) from failure

    def _goes_on(self, failure: AerobeeError | None) -> bool:
        """Whether a failure, or a result that is not good enough, is worth another attempt."""
        if failure is not None and not self._may_retry(failure):
            return False
        waits = self._limits.retries_max > 0 and not self._is_stored
        if waits and isinstance(failure, NotConnected):
            return True
        if self._losses_left and isinstance(failure, ConnectionLost):
            self._losses_left -= 1
            return True
        self._tries_left -= 1
        return self._tries_left > 0


def sending_to(queue: MessageQueue) -> str:
    """What fails, as the log calls it, where sends to a broker do."""
    return f"sending to {queue.broker_name}"
