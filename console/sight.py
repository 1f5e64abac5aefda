"""What is seen of a cluster: answers that viewers share, and the rates of the last minutes."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from itertools import islice
from typing import Final, TypeVar

import msgspec

from aerobee.admin.brokers import first_rate
from aerobee.admin.calls import Answers
from aerobee.admin.groups import GroupProgress
from aerobee.admin.topics import is_own_topic
from aerobee.client.cluster.directory import BrokerEntry
from aerobee.client.cluster.routes import MASTER_ID
from aerobee.console.kept_answers import AGE_S, KeptAnswers
from aerobee.console.reach import ViewerAdmin
from aerobee.remoting.bodies import SubscriptionGroupConfig
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.net.tasks import Tasks

T = TypeVar("T")
N = TypeVar("N", int, float)

SAMPLE_S: Final = 2.0
SAMPLES_MAX: Final = 300
"""Ten minutes of rates."""
WATCHED_S: Final = 60.0
"""So long after the last look rates are still sampled."""
OWNED_GROUPS_MAX: Final = 50
OWNED_QUEUES_MAX: Final = 2000
OWNER_CHANGES_MAX: Final = 200
"""Of whose owners a history is kept, and how much."""
SAMPLED_AT_ONCE: Final = 32
BROKERS_AGE_S: Final = 1.5
TABLE_AGE_S: Final = 5.0
"""Of names of topics and of groups, of which there may be tens of thousands."""


class RateSample(msgspec.Struct, frozen=True):
    """Messages per second of all masters at a time (ms since 1970); None where one was silent."""

    at_ms: int
    put_rate: float | None
    get_rate: float | None


class BrokerSight(msgspec.Struct):
    """A broker process as it was seen last: `state` are its own words, by RocketMQ's keys.

    `error` is why there are no newer ones; `seen_ms` is when it answered last, 0 for never.
    """

    entry: BrokerEntry
    state: dict[str, str] = {}
    error: AerobeeError | None = None
    seen_ms: int = 0

    @property
    def put_rate(self) -> float | None:
        """Messages that it takes in a second; None while it does not answer."""
        return first_rate(self.state, "putTps") if self.answers else None

    @property
    def get_rate(self) -> float | None:
        """Messages that it gives out in a second; None while it does not answer."""
        return first_rate(self.state, "getTransferredTps") if self.answers else None

    @property
    def answers(self) -> bool:
        """Whether it has answered when it was asked last."""
        return self.error is None and bool(self.seen_ms)

    def number(self, key: str) -> int | None:
        """Return what it says under a key as a number, None where it is none."""
        text = self.state.get(key, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


def total(values: Iterable[N | None]) -> N | None:
    """Add up what all have told; None where one has not, or there is none."""
    known = list(values)
    if not known or None in known:
        return None
    return sum(each for each in known if each is not None)


class OwnerChange(msgspec.Struct, frozen=True):
    """A queue that another member was seen to have, `before` "" for the first; ms since 1970."""

    at_ms: int
    topic: str
    broker: str
    queue_id: int
    before: str
    after: str


class OwnerHistory:
    """Who had which queue of the groups that were looked at, as far as somebody looked.

    A member that does not answer for once is no change.
    """

    def __init__(self) -> None:
        self._owners: dict[str, dict[tuple[str, str, int], str]] = {}
        self._changes: dict[str, deque[OwnerChange]] = {}

    def note(self, group: str, queues: Iterable[GroupProgress], now_ms: int) -> None:
        """Compare owners with those of before; the groups looked at longest ago are forgotten."""
        is_first = group not in self._owners
        known = self._owners.pop(group, {})
        kept = self._changes.pop(group, deque[OwnerChange](maxlen=OWNER_CHANGES_MAX))
        for queue in islice((each for each in queues if each.owner), OWNED_QUEUES_MAX):
            key = queue.topic, queue.broker, queue.queue_id
            before = known.get(key, "")
            if before != queue.owner and not is_first:
                kept.append(OwnerChange(now_ms, *key, before, queue.owner))
            known[key] = queue.owner
        self._owners[group], self._changes[group] = known, kept
        while len(self._owners) > OWNED_GROUPS_MAX:
            oldest = next(iter(self._owners))
            del self._owners[oldest], self._changes[oldest]

    def changes(self, group: str) -> list[OwnerChange]:
        """Return what was seen of a group, the newest first."""
        return list(reversed(self._changes.get(group, ())))


class Sight:
    """A cluster as one user sees it; shared by all viewers who see as much.

    Brokers are sampled while somebody looks, each for itself: one that is silent is shown as such.
    """

    def __init__(self, admin: ViewerAdmin) -> None:
        self.admin = admin
        self.brokers: dict[str, BrokerSight] = {}
        self.rates: deque[RateSample] = deque(maxlen=SAMPLES_MAX)
        self.trouble: AerobeeError | None = None
        """Why nobody knows which brokers there are; None where that is known."""
        self.owners = OwnerHistory()
        self._answers = KeptAnswers()
        self._tasks = Tasks()
        self._looked_s = 0.0
        self._sampled = asyncio.Event()
        self._sampling = False
        self._gate = asyncio.Semaphore(SAMPLED_AT_ONCE)
        self._under_way: set[str] = set()

    async def ask(
        self, key: Hashable, question: Callable[[], Awaitable[T]], age_s: float = AGE_S
    ) -> T:
        """Return what others were told within the last `age_s`, else the question's answer."""
        return await self._answers.get(key, question, age_s)

    def forget(self) -> None:
        """Show nothing of before a change."""
        self._answers.forget()

    async def entries(self) -> list[BrokerEntry]:
        """Return the registered brokers, slaves too."""
        return await self.ask("brokers", self.admin.brokers, BROKERS_AGE_S)

    async def topic_names(self, *, own: bool = False) -> list[str]:
        """Return the topics that users made, with `own` those of brokers and groups, too."""
        topics = await self.ask("topics", self.admin.topics, TABLE_AGE_S)
        if own:
            return topics
        entries = await self.entries()
        brokers = frozenset({each.name for each in entries} | {each.cluster for each in entries})
        return [topic for topic in topics if not is_own_topic(topic, brokers)]

    async def group_configs(self) -> Answers[dict[str, SubscriptionGroupConfig]]:
        """Return every group of every broker, as it was within the last seconds."""
        return await self.ask("group configs", self.admin.group.configs, TABLE_AGE_S)

    async def look(self, wait_s: float = 1.0) -> None:
        """Keep sampling for a minute; the first one who looks waits a moment for the answers."""
        self._looked_s = time.monotonic()
        if not self._sampling:
            self._sampling = True
            self._sampled.clear()
            self._tasks.start(self._sample(), "console samples")
        if not self._sampled.is_set():
            try:
                async with asyncio.timeout(wait_s):
                    await self._sampled.wait()
            except TimeoutError:
                return

    async def close(self) -> None:
        """Stop sampling and close every connection."""
        await self._tasks.close()
        await self._answers.close()
        await self.admin.close()

    async def _sample(self) -> None:
        try:
            while time.monotonic() - self._looked_s < WATCHED_S:
                await self._sample_once()
                self._sampled.set()
                await asyncio.sleep(SAMPLE_S)
        finally:
            self._sampling = False

    async def _sample_once(self) -> None:
        try:
            entries = await self.entries()
        except AerobeeError as error:
            self.trouble = error
            return
        self.trouble = None
        known = {entry.address: entry for entry in entries}
        for address in self.brokers.keys() - known.keys():
            del self.brokers[address]
        asked: list[asyncio.Task[None]] = []
        for address, entry in known.items():
            seen = self.brokers.setdefault(address, BrokerSight(entry))
            seen.entry = entry
            if address not in self._under_way:
                self._under_way.add(address)
                task = self._tasks.start(self._sample_broker(seen), "console sample")
                asked += [task] if task is not None else []
        if asked:  # who is slower than a sample is told of when he answers
            await asyncio.wait(asked, timeout=SAMPLE_S / 2)
        masters = [each for each in self.brokers.values() if each.entry.broker_id == MASTER_ID]
        self.rates.append(
            RateSample(
                time.time_ns() // 1_000_000,
                total(each.put_rate for each in masters),
                total(each.get_rate for each in masters),
            )
        )

    async def _sample_broker(self, seen: BrokerSight) -> None:
        address = seen.entry.address
        try:
            async with self._gate:
                state = await self.admin.ask_noting(address, self.admin.broker.state)
        except AerobeeError as error:
            seen.error = error
        else:
            seen.state, seen.error = state, None
            seen.seen_ms = time.time_ns() // 1_000_000
        finally:
            self._under_way.discard(address)
