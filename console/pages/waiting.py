"""Messages that nobody can consume yet: of delay levels, of timers, of open transactions."""

import asyncio
from typing import Any, Final

import msgspec
from aiohttp import web

from aerobee.client.cluster.directory import BrokerEntry
from aerobee.client.cluster.routes import MASTER_ID
from aerobee.client.errors import BrokerRefused
from aerobee.console.listing import ListPage
from aerobee.console.page import ConsolePage, PageRoute, Visit
from aerobee.console.sight import Sight
from aerobee.remoting.bodies import ConsumeStats, DelayOffsets
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.errors import AerobeeError, ProtocolError
from aerobee.remoting.headers.groups import ConsumeStatsRequest
from aerobee.remoting.words import HALF_TOPIC, SCHEDULE_TOPIC, SYSTEM_GROUP_PREFIX

AGE_S: Final = 2.0
TOPICS_SHOWN: Final = 50
BROKER_ROWS: Final = 20
TRANSACTION_GROUP: Final = f"{SYSTEM_GROUP_PREFIX}TRANS"
LEVELS_KEY: Final = "messageDelayLevel"
BODY_BYTES_MAX: Final = 8 << 20


class WaitingAt(msgspec.Struct):
    """What waits on one broker; None where it does not say.

    `levels` are counts by delay level, with the delay in the broker's words; `timers` counts by
    topic, the most first; `halves` is how many halves were stored since the oldest that is open.
    """

    broker: str
    levels: list[tuple[int, str, int]] = []
    timers: list[tuple[str, int]] = []
    timer_topics: int = 0
    halves: int | None = None
    halves_since_ms: int = 0
    error: AerobeeError | None = None

    @property
    def delayed(self) -> int:
        """How many wait for a level's delay."""
        return sum(count for _, _, count in self.levels)

    @property
    def timed(self) -> int:
        """How many of the topics that are shown wait for a time."""
        return sum(count for _, count in self.timers)


class _TimingCount(msgspec.Struct):
    count: int = 0


class _TimerMetrics(msgspec.Struct):
    timing_count: dict[str, _TimingCount] = msgspec.field(name="timingCount", default_factory=dict)


async def show(visit: Visit) -> web.StreamResponse:
    """Show what waits, broker by broker."""
    return visit.page("waiting.html", **await _waiting(visit))


async def live(visit: Visit) -> web.StreamResponse:
    """Show the same anew."""
    return visit.page("_waiting_live.html", **await _waiting(visit))


async def _waiting(visit: Visit) -> dict[str, Any]:
    masters = [each for each in await visit.sight.entries() if each.broker_id == MASTER_ID]
    page = ListPage(masters, visit.number("page", 1, 1, 1 << 31), "/waiting", {}, BROKER_ROWS)
    found = await asyncio.gather(*(_of_broker(visit.sight, each) for each in page.rows))
    return {"brokers": found, "list": page, "half_topic": HALF_TOPIC}


async def _of_broker(sight: Sight, master: BrokerEntry) -> WaitingAt:
    if (error := sight.admin.silence(master.address)) is not None:
        return WaitingAt(master.name, error=error)

    async def find() -> WaitingAt:
        return await sight.admin.ask_noting(master.address, lambda _: _ask(sight, master))

    try:
        return await sight.ask(("waiting", master.address), find, AGE_S)
    except AerobeeError as error:
        return WaitingAt(master.name, error=error)


async def _ask(sight: Sight, master: BrokerEntry) -> WaitingAt:
    waiting = WaitingAt(master.name)
    for part in (_levels, _timers, _halves):
        try:
            await part(sight, master.address, waiting)
        except BrokerRefused as error:
            if error.code == ResponseCode.NO_PERMISSION:
                waiting.error = error  # else it has none of these
    return waiting


async def _levels(sight: Sight, address: str, waiting: WaitingAt) -> None:
    """Count by level what lies behind the offset that is delivered next."""
    admin = sight.admin
    code = RequestCode.GET_ALL_DELAY_OFFSET
    delivered = (await admin.ask_broker(address, code, DelayOffsets)).offset_table
    stats = await admin.topic.stats(address, SCHEDULE_TOPIC)
    settings = await sight.ask(
        ("settings at", address), lambda: admin.broker.settings_at(address), 30.0
    )
    words = settings.get(LEVELS_KEY, "").split()
    for place, offsets in sorted(stats.offset_table.items(), key=lambda item: item[0].queue_id):
        level = place.queue_id + 1
        count = max(offsets.max_offset - delivered.get(level, offsets.min_offset), 0)
        if count:
            waiting.levels.append((level, words[level - 1] if level <= len(words) else "", count))


async def _timers(sight: Sight, address: str, waiting: WaitingAt) -> None:
    """Count by topic what waits for a time."""
    reply = await sight.admin.connections.request(address, RequestCode.GET_TIMER_METRICS)
    if not reply.body:
        return
    if len(reply.body) > BODY_BYTES_MAX:
        raise ProtocolError(f"{address}: {len(reply.body)} bytes of counts of timers")
    try:
        found = msgspec.json.decode(reply.body, type=_TimerMetrics).timing_count
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ProtocolError(f"{address}: counts of timers that cannot be read: {error}") from None
    counts = sorted(
        ((topic, each.count) for topic, each in found.items() if each.count > 0),
        key=lambda item: (-item[1], item[0]),
    )
    waiting.timer_topics = len(counts)
    waiting.timers = counts[:TOPICS_SHOWN]


async def _halves(sight: Sight, address: str, waiting: WaitingAt) -> None:
    """Count what was stored since the oldest half that is open."""
    header = ConsumeStatsRequest(consumer_group=TRANSACTION_GROUP, topic=HALF_TOPIC)
    stats = await sight.admin.ask_broker(
        address, RequestCode.GET_CONSUME_STATS, ConsumeStats, header
    )
    waiting.halves = sum(
        max(each.broker_offset - each.consumer_offset, 0) for each in stats.offset_table.values()
    )
    waiting.halves_since_ms = max(
        (each.last_timestamp for each in stats.offset_table.values()), default=0
    )


PAGE: Final = ConsolePage(
    "Waiting",
    "/waiting",
    (
        PageRoute("GET", "/waiting", show, costly=True),
        PageRoute("GET", "/waiting/live", live),
    ),
)
