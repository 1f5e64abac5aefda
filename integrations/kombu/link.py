"""What a connection does at the cluster beside consuming: send, make topics, look at offsets."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from aerobee.client.cluster.directory import Cluster
from aerobee.client.errors import BrokerRefused, RouteMissing, Unavailable
from aerobee.client.group.offsets import GroupOffsets
from aerobee.client.message import MessageQueue, SendResult
from aerobee.client.settings import ClientSettings
from aerobee.client.sync import Producer
from aerobee.client.sync.door import LoopDoor
from aerobee.integrations.kombu.payload import TimedMessage
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.headers.offsets import ResetOffsetRequest

log = logging.getLogger(__name__)

PRODUCERS: Final = "kombu_producers"
ROUTE_S: Final = 5.0
"""How long a topic that was made may take to be known."""
ASKED_AGAIN_S: Final = 0.05
AT_THE_END: Final = -1
"""Where a group is reset to, in place of a time."""


class Link(Producer):
    """The producer of one connection, and what it asks the brokers for."""

    def __init__(self, namesrv: str, client: ClientSettings) -> None:
        """Describe it; nothing happens before `start`."""
        super().__init__(PRODUCERS, namesrv=namesrv, client=client)
        self.namesrv = namesrv
        self.client = client
        self._door = LoopDoor(self)
        self._topics: set[str] = set()  # that are known to be there

    def reach(self, seconds: float) -> None:
        """Raise Unavailable where no nameserver answers in time, or none knows a broker."""
        self._door.wait(self._reach(seconds))

    def put(self, outgoing: TimedMessage) -> SendResult:
        """Send a message; raises what `send` does."""
        return self.send(outgoing.message, deliver_at=outgoing.deliver_at)

    async def putting(self, outgoing: TimedMessage) -> None:
        """Send a message, in the loop's thread."""
        await self._door.send(outgoing.message, deliver_at=outgoing.deliver_at)

    def ensure_topic(self, topic: str, queues: int) -> None:
        """Make a topic where there is none; one that is there stays as it is.

        Raises BrokerRefused where a broker makes none, Unavailable.
        """
        if topic not in self._topics:
            self._door.wait(self._ensure(topic, queues))
            self._topics.add(topic)

    def has_topic(self, topic: str) -> bool:
        """Whether a nameserver knows the topic; raises Unavailable."""
        if topic not in self._topics:
            try:
                self.fetch_queues(topic)
            except RouteMissing:
                return False
        return True

    def backlog(self, topic: str, group: str) -> int:
        """Return how many messages of a topic the group has not committed."""
        return self._door.wait(self._backlog(topic, group))

    def newest(self, topic: str) -> dict[MessageQueue, int]:
        """Return the offset that each queue's next message will get."""
        return self._door.wait(self._newest(topic))

    def skip_all(self, topic: str, group: str) -> int:
        """Let a group go on behind all that its topic has, and return how many are left out.

        Members are told by their broker; where there are none the offsets are stored.
        """
        return self._door.wait(self._skip_all(topic, group))

    # --- in the loop's thread ---

    async def _reach(self, seconds: float) -> None:
        try:
            async with (
                asyncio.timeout(seconds),
                Cluster(self.namesrv, settings=self.client) as cluster,
            ):
                if not await cluster.masters():
                    raise Unavailable(f"no broker has registered with {self.namesrv}")
        except TimeoutError:
            raise Unavailable(f"{self.namesrv} did not answer within {seconds:g} s") from None

    async def _ensure(self, topic: str, queues: int) -> None:
        routes = self._door.routes
        if await routes.refresh(topic) is not None:
            return
        async with Cluster(self.namesrv, settings=self.client) as cluster:
            await cluster.create_topic(topic, queues)
        deadline_s = asyncio.get_running_loop().time() + ROUTE_S
        while await routes.refresh(topic) is None:
            if asyncio.get_running_loop().time() > deadline_s:
                raise RouteMissing(topic, self.namesrv)
            await asyncio.sleep(ASKED_AGAIN_S)

    async def _queues(self, topic: str) -> Sequence[MessageQueue]:
        try:
            return (await self._door.routes.get_anew(topic)).read_queues
        except RouteMissing:
            self._topics.discard(topic)
            return ()

    def _offsets(self, group: str) -> GroupOffsets:
        """Offsets of a group, asked for by somebody who is none of its members."""
        return GroupOffsets(self._door.as_stranger, group, self.client.offset_timeout_ms)

    async def _newest(self, topic: str) -> dict[MessageQueue, int]:
        queues, offsets = await self._queues(topic), self._offsets(PRODUCERS)
        found = await asyncio.gather(*(offsets.newest(queue) for queue in queues))
        return dict(zip(queues, found, strict=True))

    async def _backlog(self, topic: str, group: str) -> int:
        newest, offsets = await self._newest(topic), self._offsets(group)
        found = await asyncio.gather(*(self._begin(offsets, queue) for queue in newest))
        ends = zip(newest.values(), found, strict=True)
        return sum(max(end - begin, 0) for end, begin in ends)

    async def _begin(self, offsets: GroupOffsets, queue: MessageQueue) -> int:
        committed = await offsets.committed(queue)
        oldest = await offsets.oldest(queue)
        return oldest if committed is None else max(committed, oldest)

    async def _skip_all(self, topic: str, group: str) -> int:
        left_out = await self._backlog(topic, group)
        header = ResetOffsetRequest(topic=topic, group=group, timestamp=AT_THE_END, is_force=True)
        offsets = self._offsets(group)
        newest = await self._newest(topic)
        names = {queue.broker_name for queue in newest}
        async with Cluster(self.namesrv, settings=self.client) as cluster:
            for master in await cluster.masters():
                if master.name not in names:
                    continue
                code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
                try:
                    await cluster.connections.request(master.address, code, header)
                except BrokerRefused as error:  # its members are told by nobody: there are none
                    log.debug("no reset group=%s topic=%s error=%s", group, topic, error)
                    mine = {at: end for at, end in newest.items() if at.broker_name == master.name}
                    await asyncio.gather(*(offsets.commit(*each) for each in mine.items()))
        return left_out
