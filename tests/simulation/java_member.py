"""What an unmodified Java client does as a member of groups, as far as its broker can see.

It knows nothing of hand-overs: one thread rebalances group by group and topic by topic, drops the
queues that are lost, commits them one-way while their handlers may still run, and begins what is
gained with one query of the offset each, which it waits for.
Source: RebalanceImpl, RemoteBrokerOffsetStore, DefaultMQPushConsumerImpl of 5.5.0.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aerobee.client import MessageQueue
from aerobee.client.cluster.decoding import decode_pulled
from aerobee.client.cluster.routes import MASTER_ID, TopicRoute, parse_route
from aerobee.client.group.strategies import Averagely
from aerobee.client.received import ReceivedMessage
from aerobee.remoting.bodies import (
    ConsumerData,
    ConsumerListReply,
    HeartbeatData,
    SubscriptionData,
    TopicRouteData,
    decode_body,
    encode_body,
)
from aerobee.remoting.clocks import wall_clock_ms
from aerobee.remoting.codes import PullSysFlag, RequestCode, ResponseCode
from aerobee.remoting.command import Command, Language
from aerobee.remoting.errors import AerobeeError
from aerobee.remoting.net.client import ConnectionPool, refuse_requests
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.tasks import Tasks
from simulation.judge.attempts import Outcome, Place
from simulation.judge.ledger import Kind
from simulation.members import Member, place_of

HEARTBEAT_S: Final = 30.0
REBALANCE_S: Final = 20.0
ROUTES_S: Final = 30.0
PERSIST_S: Final = 5.0
API_S: Final = 3.0
OFFSET_S: Final = 5.0
PULL_S: Final = 30.0
PULL_AGAIN_S: Final = 3.0
ANSWERED_WITHIN_S: Final = 2.0  # handoverWaitMillis
ON_THE_WAY_S: Final = 1.7  # two slow pieces


class OwnedQueue:
    """A queue that it pulls, and how far it is done with it (ProcessQueue.java)."""

    def __init__(self, group: str, queue: MessageQueue, offset: int) -> None:
        self.group = group
        self.queue = queue
        self.next_offset = offset
        self.done_before = offset
        self.dropped = False

    def fields(self, **more: object) -> dict[str, str]:
        """Return the header fields of a request about the queue."""
        return queue_fields(self.group, self.queue, **more)


class JavaMember(Member):
    """One client instance of RocketMQ's, with a push consumer in each of its groups."""

    async def join(self) -> None:
        """Heartbeat, rebalance, and go on with both."""
        self._stopping = False
        self._tasks = Tasks()
        self._queues: dict[tuple[str, MessageQueue], OwnedQueue] = {}
        self._routes: dict[str, TopicRoute] = {}
        self._masters: dict[str, str] = {}  # of every broker that a route ever named
        self._round = asyncio.Lock()
        self._client_id = f"{self.host.ip}@{self.host.lives}#java"
        self._sub_versions = dict.fromkeys(self.groups, wall_clock_ms())
        self._pool = ConnectionPool(self._asked)
        self._wanted = asyncio.Event()
        await self._find_routes()
        await self._heartbeat()
        self._wanted.set()
        for interval_s, work in (
            (ROUTES_S, self._find_routes),
            (HEARTBEAT_S, self._heartbeat),
            (PERSIST_S, self._persist_all),
        ):
            self._tasks.start(self._repeat(interval_s, work))
        self._tasks.start(self._rebalance_for_ever())

    async def close(self) -> None:
        """Persist, unregister, close (DefaultMQPushConsumerImpl.shutdown)."""
        self._stopping = True
        async with self._round:
            for owned in self._queues.values():
                owned.dropped = True
            await self._persist_all()
            for group in self.groups:
                ext = {"clientID": self._client_id, "consumerGroup": group}
                for address in sorted(self._masters.values()):
                    await self._try(address, RequestCode.UNREGISTER_CLIENT, ext)
        await self._pool.close()

    def topics(self, group: str) -> tuple[str, ...]:
        """Return what a group subscribes to, its retry topic included."""
        return (*super().topics(group), f"%RETRY%{group}")

    def owned(self, group: str) -> list[Place]:
        """Return the queues that it pulls."""
        return [place_of(queue) for name, queue in self._queues if name == group]

    # --- timers and requests ---

    async def _repeat(self, interval_s: float, work: Callable[[], Awaitable[None]]) -> None:
        while not self._stopping:
            await asyncio.sleep(interval_s)
            await work()

    def _asked(self, connection: Connection, command: Command) -> None:
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._wanted.set()
        else:
            refuse_requests(connection, command)

    async def _try(
        self,
        address: str,
        code: int,
        ext: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout_s: float = API_S,
    ) -> Command | None:
        """Return the reply to a request, None without one."""
        request = Command(code, dict(ext or {}), body, language=Language.JAVA)
        try:
            await self._greet(address)
            return await self._pool.call(address, request, timeout_s)
        except AerobeeError:
            return None

    async def _greet(self, address: str) -> None:
        """Make a heartbeat the first word on a new connection (onChannelActive, since 5.1)."""
        if self._pool.get(address) is None and address in self._masters.values():
            connection = await self._pool.connect(address)
            reply = connection.begin(RequestCode.HEART_BEAT, {}, self._beat(), API_S)
            reply.add_done_callback(asyncio.Future.exception)  # nobody waits for it
            self._wanted.set()

    async def _find_routes(self) -> None:
        topics = {topic: None for group in self.groups for topic in self.topics(group)}
        for topic in topics:
            for address in self.host.namesrv.split(";"):
                ext = {"topic": topic, "acceptStandardJsonOnly": "true"}
                reply = await self._try(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, ext)
                if reply is not None and reply.code == ResponseCode.SUCCESS:
                    route = parse_route(topic, decode_body(TopicRouteData, reply.body))
                    self._routes[topic] = route
                    for name, addresses in route.brokers.items():
                        self._masters[name] = addresses[MASTER_ID]
                    break

    async def _heartbeat(self) -> None:
        for address in sorted(self._masters.values()):
            await self._try(address, RequestCode.HEART_BEAT, body=self._beat())

    def _beat(self) -> bytes:
        consumers = [
            ConsumerData(
                group_name=group,
                consume_from_where="CONSUME_FROM_FIRST_OFFSET",
                subscription_data_set=[
                    SubscriptionData(
                        topic=topic, sub_string="*", sub_version=self._sub_versions[group]
                    )
                    for topic in self.topics(group)
                ],
            )
            for group in self.groups
        ]
        return encode_body(HeartbeatData(client_id=self._client_id, consumer_data_set=consumers))

    # --- sharing queues ---

    async def _rebalance_for_ever(self) -> None:
        while not self._stopping:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REBALANCE_S):
                    await self._wanted.wait()
            self._wanted.clear()
            async with self._round:
                for group in self.groups:
                    for topic in self.topics(group):
                        if not self._stopping and topic in self._routes:
                            await self._share(group, topic)

    async def _share(self, group: str, topic: str) -> None:
        route = self._routes[topic]
        address = self.dice.choice([ids[MASTER_ID] for ids in route.brokers.values()])
        ext = {"consumerGroup": group}
        reply = await self._try(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, ext)
        if reply is None or reply.code != ResponseCode.SUCCESS:
            return
        members = sorted(decode_body(ConsumerListReply, reply.body).consumer_id_list)
        mine = Averagely().allocate(group, self._client_id, route.read_queues, members)
        changed = False
        for owned in list(self._queues.values()):
            queue = owned.queue
            if owned.group == group and queue.topic == topic and queue not in mine:
                del self._queues[group, queue]
                owned.dropped = changed = True
                await self._persist(owned)
        for queue in mine:
            if (group, queue) not in self._queues:
                offset = await self._offset(group, queue)
                if offset is not None:
                    changed = True
                    self._queues[group, queue] = owned = OwnedQueue(group, queue, offset)
                    self._tasks.start(self._pull(owned))
        if changed:  # MessageQueueChanged: a newer version tells the brokers
            self._sub_versions[group] = max(wall_clock_ms(), self._sub_versions[group] + 1)
            await self._heartbeat()

    async def _offset(self, group: str, queue: MessageQueue) -> int | None:
        """Ask where to begin; 22 means at the first message, no answer that it is tried again."""
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        address, fields = self._masters[queue.broker_name], queue_fields(group, queue)
        reply = await self._try(address, RequestCode.QUERY_CONSUMER_OFFSET, fields, b"", OFFSET_S)
        waited_s = loop.time() - asked_s
        if waited_s > ANSWERED_WITHIN_S + ON_THE_WAY_S:
            self.ledger.late_answer(self.host.name, place_of(queue), waited_s)
        if reply is None:
            return None
        if reply.code == ResponseCode.SUCCESS:
            return int(reply.ext["offset"])
        if reply.code != ResponseCode.QUERY_NOT_FOUND:
            what = f"{self.host.name} asked for the offset of {place_of(queue)}"
            self.ledger.broke(Kind.SLOW, f"{what}, and was answered {reply.code}")
        return 0

    async def _persist_all(self) -> None:
        for owned in list(self._queues.values()):
            await self._persist(owned)

    async def _persist(self, owned: OwnedQueue) -> None:
        ext = owned.fields(commitOffset=owned.done_before)
        address = self._masters[owned.queue.broker_name]
        with contextlib.suppress(AerobeeError):
            await self._greet(address)
            await self._pool.oneway(address, Command(RequestCode.UPDATE_CONSUMER_OFFSET, ext))

    # --- consuming ---

    async def _pull(self, owned: OwnedQueue) -> None:
        while not owned.dropped:
            flags = PullSysFlag.SUSPEND | (PullSysFlag.COMMIT_OFFSET if owned.done_before else 0)
            ext = owned.fields(
                queueOffset=owned.next_offset,
                maxMsgNums=32,
                sysFlag=flags,
                commitOffset=owned.done_before,
                suspendTimeoutMillis=15_000,
                subVersion=self._sub_versions[owned.group],
                expressionType="TAG",
            )
            address = self._masters[owned.queue.broker_name]
            reply = await self._try(address, RequestCode.PULL_MESSAGE, ext, b"", PULL_S)
            if owned.dropped:
                return
            if reply is None or "nextBeginOffset" not in reply.ext:
                await asyncio.sleep(PULL_AGAIN_S)
                continue
            owned.next_offset = int(reply.ext["nextBeginOffset"])
            if reply.code == ResponseCode.PULL_OFFSET_MOVED:
                owned.done_before = owned.next_offset
            if reply.code == ResponseCode.SUCCESS:
                await self._handle(owned, decode_pulled(bytes(reply.body), owned.queue).messages)

    async def _handle(self, owned: OwnedQueue, messages: list[ReceivedMessage]) -> None:
        """Handle one after the other; what is under way at the drop is not counted."""
        for message in messages:
            if owned.dropped:
                return
            attempt = self.attempt(owned.group, message)
            await asyncio.sleep(self.work_s())
            self.ledger.end(attempt, Outcome.DONE)
            owned.done_before = message.queue_offset + 1


def queue_fields(group: str, queue: MessageQueue, **more: object) -> dict[str, str]:
    """Return the header fields of a request about one queue of a group."""
    fields = {"consumerGroup": group, "topic": queue.topic, "queueId": queue.queue_id}
    return {key: str(value) for key, value in (fields | more).items()}
