"""Brokers: their state (28) and settings (25, 26), and taking one out of service (205, 327)."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from aerobee.admin.calls import AdminCalls, Answers, read_settings, side_by_side
from aerobee.admin.groups import GroupAdmin, is_own_group
from aerobee.admin.topics import TopicAdmin
from aerobee.client.cluster.directory import BrokerEntry
from aerobee.client.errors import BrokerRefused, InvalidUse
from aerobee.remoting.bodies import DelayOffsets, KVTable
from aerobee.remoting.codes import Perm, RequestCode
from aerobee.remoting.config.java_properties import format_java_properties
from aerobee.remoting.errors import Unavailable
from aerobee.remoting.headers.namesrv import (
    AddWritePermReply,
    BrokerNameRequest,
    WipeWritePermReply,
)
from aerobee.remoting.headers.typed import decode_header
from aerobee.remoting.words import SCHEDULE_TOPIC

PERMISSION: Final = "brokerPermission"
DRAIN_LOOK_S: Final = 1.0
"""Between two looks at what is left to consume."""
ROUTES_S: Final = 30.0
"""Until then clients may send by a route of before (pollNameServerInterval)."""


class DrainState(msgspec.Struct, frozen=True):
    """How far a broker is drained.

    `lags` are messages that groups have yet to consume, by group; `delayed` those that wait for
    their time; `puts` is how many the broker has taken so far.
    """

    lags: dict[str, int]
    delayed: int
    puts: str

    @property
    def is_done(self) -> bool:
        """Whether nothing is left."""
        return not self.lags and not self.delayed


class BrokerAdmin:
    """Looks at brokers, sets them up, and takes them out of service.

    for name, state in (await admin.broker.states()).found.items():
        print(name, state["putTps"])
    """

    def __init__(self, admin: AdminCalls, groups: GroupAdmin, topics: TopicAdmin) -> None:
        self._admin = admin
        self._groups = groups
        self._topics = topics

    async def states(
        self, *, cluster: str | None = None, broker: str | None = None
    ) -> Answers[dict[str, str]]:
        """Return what each master says of itself, under RocketMQ's keys (putTps, ...)."""
        masters = await self._admin.masters_of(cluster, broker)
        return await self._admin.each(masters, self.state)

    async def state(self, address: str) -> dict[str, str]:
        """Return what the broker at an address says of itself."""
        code = RequestCode.GET_BROKER_RUNTIME_INFO
        return (await self._admin.ask_broker(address, code, KVTable)).table

    async def settings(self, broker: str) -> dict[str, str]:
        """Return all settings of a broker; raises InvalidUse for a name that nobody has."""
        (master,) = await self._admin.masters_of(None, broker)
        return await self.settings_at(master.address)

    async def settings_at(self, address: str) -> dict[str, str]:
        """Return all settings of the broker at an address."""
        reply = await self._admin.connections.request(address, RequestCode.GET_BROKER_CONFIG)
        return read_settings(address, reply.body)

    async def set(self, broker: str, settings: Mapping[str, str]) -> str:
        """Change settings of a broker at run time; return what it says about it, often nothing.

        RocketMQ takes any key, says nothing of those that it does not know, and needs a restart for
        ports, threads and folders; Aerobee refuses those and names what it does not know.
        """
        (master,) = await self._admin.masters_of(None, broker)
        return await self._set_at(master.address, settings)

    async def namesrv_settings(self) -> dict[str, dict[str, str]]:
        """Return the settings of each nameserver, by its address; all have to answer."""
        found = {}
        for address in list(self._admin.namesrv):
            reply = await self._admin.connections.request(address, RequestCode.GET_NAMESRV_CONFIG)
            found[address] = read_settings(address, reply.body)
        return found

    async def set_namesrv(self, settings: Mapping[str, str]) -> None:
        """Change settings of every nameserver at run time; raises what one of them refuses."""
        body = format_java_properties(_checked(settings)).encode()
        for address in list(self._admin.namesrv):
            await self._admin.connections.request(
                address, RequestCode.UPDATE_NAMESRV_CONFIG, body=body
            )

    async def wipe_write_permission(self, broker: str) -> dict[str, int]:
        """Take the right to write from all topics of a broker, in each nameserver's table.

        Returns by nameserver how many topics these were. It lasts until the broker registers a
        topic anew: `drain` takes it in the broker, where it stays.
        """
        await self._admin.masters_of(None, broker)
        found = {}
        for address in list(self._admin.namesrv):
            reply = await self._admin.connections.request(
                address,
                RequestCode.WIPE_WRITE_PERM_OF_BROKER,
                BrokerNameRequest(broker_name=broker),
            )
            found[address] = decode_header(WipeWritePermReply, reply.ext).wipe_topic_count
        return found

    async def add_write_permission(self, broker: str) -> dict[str, int]:
        """Give all topics of a broker the right to write, in each nameserver's table."""
        await self._admin.masters_of(None, broker)
        found = {}
        for address in list(self._admin.namesrv):
            reply = await self._admin.connections.request(
                address, RequestCode.ADD_WRITE_PERM_OF_BROKER, BrokerNameRequest(broker_name=broker)
            )
            found[address] = decode_header(AddWritePermReply, reply.ext).add_topic_count
        return found

    async def drain(
        self,
        broker: str,
        *,
        timeout_s: float | None = None,
        settle_s: float = ROUTES_S,
        skip_absent: bool = False,
        progress: Callable[[DrainState], None] = lambda state: None,
    ) -> DrainState:
        """Let a broker take no more messages, and wait until groups have consumed what it has.

        Clients hear of it with their next route: it takes at least `settle_s`, and until nothing
        has come between two looks. Groups without members never end, unless it is to `skip_absent`
        ones, which get the rest when the broker is back. Afterwards it can be stopped. Raises
        Unavailable when the time is up; then, or when the call is cancelled, the broker takes
        messages again as before.
        """
        (master,) = await self._admin.masters_of(None, broker)
        before = (await self.settings_at(master.address)).get(PERMISSION, "")
        before = before or str(Perm.READ | Perm.WRITE)
        try:
            async with asyncio.timeout(timeout_s):
                await self._set_at(master.address, {PERMISSION: str(Perm.READ)})
                settled_s = time.monotonic() + settle_s
                before_last: DrainState | None = None
                while True:
                    state = await self._drained(master, skip_absent)
                    progress(state)
                    if state.is_done and state == before_last and time.monotonic() >= settled_s:
                        return state
                    before_last = state
                    await asyncio.sleep(DRAIN_LOOK_S)
        except TimeoutError:
            await self._set_at(master.address, {PERMISSION: before})
            raise Unavailable(
                f"{broker} still has messages to consume after {timeout_s:g} s; it takes messages"
                " again: groups without members never end (--skip-absent)"
            ) from None
        except BaseException:
            await asyncio.shield(self._set_at(master.address, {PERMISSION: before}))
            raise

    async def _drained(self, master: BrokerEntry, skip_absent: bool) -> DrainState:
        groups = (await self._groups.configs(broker=master.name)).or_raise()[master.name]
        wanted = [group for group in sorted(groups) if not is_own_group(group)]

        async def lag(group: str) -> int:
            """Count what a group has not consumed, of topics too in which it has not committed."""
            (stats,) = (await self._groups.progress(group, [master])).or_raise().values()
            lags = dict(stats.offset_table)
            (online,) = (await self._groups.connections(group, [master])).or_raise().values()
            if online is None and skip_absent:
                return 0
            subscribed = set(online.subscription_table) if online is not None else set()
            for topic in sorted(subscribed - {queue.topic for queue in lags}):
                found = (await self._groups.progress(group, [master], topic)).or_raise()
                lags |= found[master.name].offset_table
            return sum(max(each.broker_offset - each.consumer_offset, 0) for each in lags.values())

        lags = {name: left for name, left in (await side_by_side(wanted, lag)).items() if left}
        delayed = await self._delayed(master.address)
        state = await self.state(master.address)
        return DrainState(lags, delayed, state.get("msgPutTotalTodayNow", ""))

    async def _delayed(self, address: str) -> int:
        """Count the messages of delay levels whose time has not come."""
        code = RequestCode.GET_ALL_DELAY_OFFSET
        try:
            delivered = (await self._admin.ask_broker(address, code, DelayOffsets)).offset_table
            stats = await self._topics.stats(address, SCHEDULE_TOPIC)
        except BrokerRefused:  # it has no delay levels
            return 0
        return sum(
            max(offsets.max_offset - delivered.get(place.queue_id + 1, offsets.min_offset), 0)
            for place, offsets in stats.offset_table.items()
        )

    async def _set_at(self, address: str, settings: Mapping[str, str]) -> str:
        body = format_java_properties(_checked(settings)).encode()
        reply = await self._admin.connections.request(
            address, RequestCode.UPDATE_BROKER_CONFIG, body=body
        )
        return reply.remark or ""


def _checked(settings: Mapping[str, str]) -> Mapping[str, str]:
    for key, value in settings.items():
        if not key or "\n" in key + value:
            raise InvalidUse(f"{key!r}={value!r} is no setting")
    return settings


def first_rate(state: Mapping[str, str], key: str) -> float:
    """Return the first of a state's rates "10s 1m 10m", 0 where there is none."""
    words = state.get(key, "").split()
    try:
        rate = float(words[0])
    except (IndexError, ValueError):
        return 0.0
    return rate if math.isfinite(rate) else 0.0  # JSON has no others
