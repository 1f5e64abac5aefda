"""Offsets of groups: where they would go, and the reset itself (15, 26, 29, 208, 222)."""

from enum import Enum
from typing import Final

import msgspec

from aerobee.admin.calls import AdminCalls, read_settings, side_by_side
from aerobee.admin.groups import GroupAdmin
from aerobee.admin.topics import TopicAdmin
from aerobee.client.cluster.directory import BrokerEntry
from aerobee.client.errors import BrokerRefused, InvalidUse
from aerobee.remoting.bodies import ResetOffsetBody, TopicStatsTable, decode_body
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.headers.offsets import (
    OffsetReply,
    QueryConsumerOffsetRequest,
    ResetOffsetRequest,
    SearchOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from aerobee.remoting.headers.typed import decode_header

END_TIMESTAMP: Final = -1
"""What stands for the end of a queue where a time is asked for."""
RESET_REMARK: Final = "has been previously reset"
"""What brokers answer to a commit that they do not take, as a success."""


class QueueEdge(Enum):
    """Where a reset leads to, beside a time or an offset."""

    BEGIN = "begin"
    END = "end"


class OffsetChange(msgspec.Struct, frozen=True):
    """What a reset does to one queue: `before` and `after` are the offset of the next message.

    `begin` and `end` are the queue's bounds; `after` lies between them.
    """

    topic: str
    broker: str
    queue_id: int
    begin: int
    end: int
    before: int
    after: int

    @property
    def again(self) -> int:
        """How many messages are consumed again; negative: how many are passed over."""
        return self.before - self.after


class ResetPlan(msgspec.Struct, frozen=True):
    """A reset that was not done yet: show it, then `OffsetAdmin.apply` it.

    `timestamp_ms` is the time that it was made of, -1 for the end, None for given offsets;
    `members` is how many of the group are connected.
    """

    group: str
    topic: str
    changes: list[OffsetChange]
    timestamp_ms: int | None
    members: int


class OffsetAdmin:
    """Shows and moves the offsets of consumer groups.

    plan = await admin.offset.plan("billing", "orders", to=QueueEdge.END)
    print(sum(change.again for change in plan.changes))
    await admin.offset.apply(plan)
    """

    def __init__(self, admin: AdminCalls, groups: GroupAdmin, topics: TopicAdmin) -> None:
        self._admin = admin
        self._groups = groups
        self._topics = topics

    async def plan(
        self,
        group: str,
        topic: str,
        to: QueueEdge | int,
        *,
        is_offset: bool = False,
        broker: str | None = None,
        queue_id: int | None = None,
    ) -> ResetPlan:
        """Return what a reset would do; nothing is changed.

        `to` is the begin or end of the queues, a time in ms since 1970, or with `is_offset` an
        offset, which is cut to what each queue has. `broker` and `queue_id` choose among the
        queues. Raises InvalidUse for a topic, group or queue that is not there.
        """
        masters = await self._having(group, await self._masters(topic, broker))
        addresses = {each.name: each.address for each in masters}
        stats = (
            await self._admin.each(addresses, lambda each: self._topics.stats(each, topic))
        ).or_raise()
        progress = (await self._groups.progress(group, masters, topic)).or_raise()
        committed = {
            (place.broker_name, place.queue_id): offsets.consumer_offset
            for table in progress.values()
            for place, offsets in table.offset_table.items()
        }
        queues = _chosen(stats, topic, queue_id)

        async def change(key: tuple[str, int]) -> OffsetChange:
            name, number = key
            begin, end = queues[key]
            before = committed.get(key, 0)
            if to is QueueEdge.BEGIN:
                after = begin
            elif to is QueueEdge.END:
                after = end
            elif is_offset:
                assert isinstance(to, int)
                after = to
            else:
                assert isinstance(to, int)
                after = await self._at_time(addresses[name], topic, number, to)
            return OffsetChange(
                topic, name, number, begin, end, before, min(max(after, begin), end)
            )

        changes = list((await side_by_side(queues, change)).values())
        timestamp_ms = END_TIMESTAMP if to is QueueEdge.END else None
        if isinstance(to, int) and not is_offset:
            timestamp_ms = to
        if queue_id is not None:
            timestamp_ms = None  # a time, passed on to members, is for all queues
        return ResetPlan(group, topic, changes, timestamp_ms, await self._members(group, masters))

    async def plan_copy(self, source: str, target: str, topic: str) -> ResetPlan:
        """Return what it would be to let a group go on where another one is; nothing is changed.

        Queues in which `source` has committed nothing are left out. Raises InvalidUse for a group
        or topic that is not there, and where nothing is committed.
        """
        masters = await self._having(source, await self._masters(topic, None))
        addresses = {each.name: each.address for each in masters}
        progress = (await self._groups.progress(source, masters, topic)).or_raise()
        queues = {
            (place.broker_name, place.queue_id): offsets.consumer_offset
            for table in progress.values()
            for place, offsets in table.offset_table.items()
        }

        async def at(key: tuple[str, int]) -> int | None:
            """Tell nothing from the first message: in progress both are 0."""
            if queues[key] > 0:
                return queues[key]
            return await self.committed(addresses[key[0]], source, topic, key[1])

        found = await side_by_side(queues, at)
        wanted = {key: offset for key, offset in found.items() if offset is not None}
        plan = await self.plan(target, topic, QueueEdge.BEGIN)
        changes = [
            msgspec.structs.replace(
                each, after=min(max(wanted[each.broker, each.queue_id], each.begin), each.end)
            )
            for each in plan.changes
            if (each.broker, each.queue_id) in wanted
        ]
        if not changes:
            raise InvalidUse(f"group {source!r} has committed nothing in {topic!r}")
        return msgspec.structs.replace(plan, changes=changes, timestamp_ms=None)

    async def apply(self, plan: ResetPlan) -> None:
        """Do what a plan says, queue by queue; doing it twice does the same.

        Brokers tell connected members themselves. Raises InvalidUse, before anything is changed,
        where a broker can only pass a time on to members (useServerSideResetOffset is false) and
        the plan is none by time: stop the members, then. So it does for a topic that has fewer
        messages than when the plan was made: it was deleted and made anew.
        """
        masters = await self._masters(plan.topic, None)
        addresses = {each.name: each.address for each in masters}
        wanted = {change.broker for change in plan.changes}
        gone = wanted - addresses.keys()
        if gone:
            raise InvalidUse(f"{', '.join(sorted(gone))} has gone since the plan was made")
        by_broker: dict[str, list[OffsetChange]] = {}
        for change in plan.changes:
            by_broker.setdefault(change.broker, []).append(change)
        await self._check_ends(plan, {name: addresses[name] for name in wanted})
        serving = await side_by_side(sorted(wanted), lambda name: self._resets(addresses[name]))
        telling = [each for each in masters if not serving.get(each.name, True)]
        members = await self._members(plan.group, telling) if telling else 0
        by_members = sorted(each.name for each in telling if members)
        if by_members and (plan.timestamp_ms is None):
            raise InvalidUse(
                f"{', '.join(by_members)} leaves resets to the group's {members} members,"
                " which take a time and no offset (useServerSideResetOffset=false): stop them, or"
                " reset by a time"
            )
        for name, changes in by_broker.items():
            if serving[name]:
                for each in changes:
                    await self._reset(
                        addresses[name], plan.group, each.topic, each.queue_id, each.after
                    )
            elif members:
                await self._tell(addresses[name], plan)
            else:
                for each in changes:
                    await self.commit(
                        addresses[name], plan.group, each.topic, each.queue_id, each.after
                    )

    async def committed(self, address: str, group: str, topic: str, queue_id: int) -> int | None:
        """Return the offset that a group without members committed in a queue, None for none."""
        header = QueryConsumerOffsetRequest(
            consumer_group=group, topic=topic, queue_id=queue_id, set_zero_if_not_found=False
        )
        try:
            reply = await self._admin.connections.request(
                address, RequestCode.QUERY_CONSUMER_OFFSET, header
            )
        except BrokerRefused as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        return decode_header(OffsetReply, reply.ext).offset

    async def commit(
        self, address: str, group: str, topic: str, queue_id: int, offset: int
    ) -> None:
        """Let a broker keep the offset of a group that has no members; returns once it has.

        After a reset brokers take no commits until somebody has pulled: it is a reset, then.
        """
        header = UpdateConsumerOffsetRequest(
            consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
        )
        reply = await self._admin.connections.request(
            address, RequestCode.UPDATE_CONSUMER_OFFSET, header
        )
        if reply.remark is not None and RESET_REMARK in reply.remark:
            await self._reset(address, group, topic, queue_id, offset)

    async def _masters(self, topic: str, broker: str | None) -> list[BrokerEntry]:
        having = await self._admin.masters_with(topic)
        masters = await self._admin.masters_of(None, broker)
        chosen = [each for each in masters if each.name in having]
        if not chosen:
            raise InvalidUse(f"broker {broker!r} has no topic {topic!r}")
        return chosen

    async def _check_ends(self, plan: ResetPlan, addresses: dict[str, str]) -> None:
        """Raise InvalidUse where a queue ends before the place at which it ended in the plan."""
        stats = await self._admin.each(addresses, lambda each: self._topics.stats(each, plan.topic))
        ends = {
            (place.broker_name, place.queue_id): offsets.max_offset
            for table in stats.or_raise().values()
            for place, offsets in table.offset_table.items()
        }
        if any(ends.get((each.broker, each.queue_id), 0) < each.end for each in plan.changes):
            raise InvalidUse(
                f"topic {plan.topic!r} has fewer messages than when the plan was made: it was made"
                " anew; make the plan anew, too"
            )

    async def _having(self, group: str, masters: list[BrokerEntry]) -> list[BrokerEntry]:
        """Return the masters that have a group; raises InvalidUse if none has."""
        configs = (await self._groups.configs()).found
        having = [each for each in masters if group in configs.get(each.name, {group: None})]
        if not having:
            names = ", ".join(each.name for each in masters)
            raise InvalidUse(
                f"no group {group!r} on {names}; `aerobee group list` shows what there is"
            )
        return having

    async def _members(self, group: str, masters: list[BrokerEntry]) -> int:
        """Count who of a group is connected."""
        online = (await self._groups.connections(group, masters)).or_raise()
        connected = [each.connection_set for each in online.values() if each is not None]
        return len({each.client_id for members in connected for each in members})

    async def _at_time(self, address: str, topic: str, queue_id: int, timestamp_ms: int) -> int:
        header = SearchOffsetRequest(topic=topic, queue_id=queue_id, timestamp=timestamp_ms)
        reply = await self._admin.connections.request(
            address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header
        )
        return decode_header(OffsetReply, reply.ext).offset

    async def _resets(self, address: str) -> bool:
        """Whether a broker resets offsets itself; RocketMQ before 5.1 tells the members alone."""
        reply = await self._admin.connections.request(address, RequestCode.GET_BROKER_CONFIG)
        return read_settings(address, reply.body).get("useServerSideResetOffset") == "true"

    async def _reset(
        self, address: str, group: str, topic: str, queue_id: int, offset: int
    ) -> None:
        header = ResetOffsetRequest(
            topic=topic,
            group=group,
            timestamp=END_TIMESTAMP,
            is_force=True,
            queue_id=queue_id,
            offset=offset,
        )
        await self._admin.connections.request(
            address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header
        )

    async def _tell(self, address: str, plan: ResetPlan) -> None:
        """Have a broker pass a time on to the members."""
        assert plan.timestamp_ms is not None
        header = ResetOffsetRequest(
            topic=plan.topic, group=plan.group, timestamp=plan.timestamp_ms, is_force=True
        )
        reply = await self._admin.connections.request(
            address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header
        )
        decode_body(ResetOffsetBody, reply.body)


def _chosen(
    stats: dict[str, TopicStatsTable], topic: str, queue_id: int | None
) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the bounds of the queues that are meant; raises InvalidUse where there is none."""
    queues = {
        (place.broker_name, place.queue_id): (offsets.min_offset, offsets.max_offset)
        for table in stats.values()
        for place, offsets in table.offset_table.items()
        if queue_id in (None, place.queue_id)
    }
    if not queues:
        what = "has no queues" if queue_id is None else f"has no queue {queue_id}"
        raise InvalidUse(f"topic {topic!r} {what}")
    return dict(sorted(queues.items()))
