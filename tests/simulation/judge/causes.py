"""What may excuse that a message comes twice: each kind of trouble, how far it reaches, and why.

A trouble that lasted from `begins` to `ends` excuses two deliveries of a message if

- the first handler had not ended `before_s` before it began: else its offset was committed, and
  saved, by then;
- the first handler began no later than `SETTLED_S` after it ended: by then everybody talks to
  everybody again, and has shared the queues;
- the second one began while it lasted, or at most `after_s` after it: by then the queue has an
  owner, who begins where the commits end. Of orderly queues a lock may have to expire first.

All of it follows from settings of brokers and clients; none is measured. Slow syncs and nameservers
that die excuse nothing, and neither do full disks and failed syncs, but where messages have to be
sent back to a log that takes none: those are not done, and keep all behind them uncommitted.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from aerobee.broker.handover.queue_locks import LEASE_MS
from aerobee.broker.settings.keys import BrokerSettings
from aerobee.client import ClientSettings, LitePullSettings, PushSettings

_CLIENT: Final = ClientSettings()
_PUSH: Final = PushSettings()
_LITE: Final = LitePullSettings()
_BROKER: Final = BrokerSettings()

LONG_S: Final = (1.0, 6.0)
"""What the longest handlers of the simulation take that are no trouble."""
AWAY_S: Final = (0.5, 12.0)
"""For so long a member is away; as long as all of its group are, nobody asks for its queues."""

COMMIT_S: Final = max(_CLIENT.offsets_interval_ms, _LITE.auto_commit_interval_ms) / 1e3 + LONG_S[1]
"""Members commit so often, but not past the oldest handler that still runs."""
SAVE_S: Final = _BROKER.flush_consumer_offset_interval / 1e3
"""Brokers save so often what was committed."""
RECONNECTED_S: Final = _PUSH.pull.error_delay_ms / 1e3
"""After an error members try again within that."""
SETTLED_S: Final = RECONNECTED_S + _CLIENT.rebalance_gap_ms / 1e3
"""Then they are connected, and one round of sharing later they know who owns what."""
ROUTES_S: Final = _CLIENT.route_interval_ms / 1e3
"""Within that clients see that a broker is back, or elsewhere."""
SHARE_S: Final = _CLIENT.rebalance_interval_ms / 1e3
"""Members share their queues anew within that, also where no broker tells them to."""
HAND_OVER_S: Final = max(_PUSH.handover_timeout_ms, _LITE.handover_timeout_ms) / 1e3
"""For so long the owner of a queue may wait for its handlers before another one gets it."""
LEASE_S: Final = (LEASE_MS + _PUSH.lock_retry_ms) / 1e3
"""A lock that nobody gives back expires, and the next member tries again."""
ASK_S: Final = _CLIENT.offset_timeout_ms / 1e3
"""A question for an offset is given up after that, and what delayed it may be over."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far one kind of trouble reaches, in seconds; see above.

    `locks`: it also excuses two members at an orderly queue, for the locks are lost or given on.
    """

    what: str
    before_s: float
    after_s: float
    locks: bool = False


class Cause(Enum):
    """Every kind of trouble that makes deliveries come twice."""

    # what it had done and not committed comes again to whoever gets its queues
    MEMBER_DIED = Reach("its process died", COMMIT_S, AWAY_S[1] + SHARE_S)
    # a member that was on its way has owned queues, and does not say that it leaves
    START_CANCELLED = Reach("a start was cancelled", COMMIT_S, SHARE_S)
    CLOSE_CANCELLED = Reach("a close was cancelled", COMMIT_S, SHARE_S)
    # it was at work at the end of a hand-over, and its work counts for nothing
    HANDLER_CANCELLED = Reach("a handler was cancelled", COMMIT_S, SHARE_S)
    # the queue is given on without it
    HANDLER_TOO_LONG = Reach(
        "a handler takes too long", COMMIT_S, HAND_OVER_S + SHARE_S, locks=True
    )
    # commits get lost on the way, and brokers take the member for gone
    RESET = Reach("a connection was reset", COMMIT_S, RECONNECTED_S)
    HALF_OPEN = Reach("a connection is half open", COMMIT_S, SHARE_S)
    CUT_OFF = Reach("it is cut off", COMMIT_S, SHARE_S)
    FROZEN = Reach("it stands still", COMMIT_S, SHARE_S)
    # it forgets what was committed since it saved, who its members are, and all locks
    BROKER_DIED = Reach("it died", COMMIT_S + SAVE_S, ROUTES_S + SHARE_S, locks=True)
    BROKER_LOST_POWER = Reach("it lost power", COMMIT_S + SAVE_S, ROUTES_S + SHARE_S, locks=True)
    # whoever asks for a queue gets it, whatever its owner has not committed
    WAITS_CHANGED = Reach("it waits for no owner", COMMIT_S, HAND_OVER_S + SHARE_S)
    # it takes no message, also none back, and so the offsets of who fails stand still
    BROKER_REFUSES = Reach("its log takes nothing", COMMIT_S, ROUTES_S + HAND_OVER_S)
    # it saves what it was told; what was on its way gets no answer
    BROKER_STOPPED = Reach("it was stopped", COMMIT_S, ROUTES_S + HAND_OVER_S, locks=True)

    @property
    def reach(self) -> Reach:
        """How far it reaches."""
        reach: Reach = self.value
        return reach

    def __str__(self) -> str:
        return self.reach.what


DOWN: Final = (Cause.BROKER_DIED, Cause.BROKER_LOST_POWER, Cause.BROKER_STOPPED)
"""Whatever keeps a queue from being read at all."""
