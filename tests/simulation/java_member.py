"""What an unmodified Java client does as a member of a group, as far as its broker can see.

It knows nothing of hand-overs: it rebalances topic by topic, drops the queues that it loses,
commits them one-way while their handlers may still run, and begins what it gains with one query of
the offset. Source: RebalanceImpl, RemoteBrokerOffsetStore, DefaultMQPushConsumerImpl of 5.5.0.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Final

from aerobee.client import MessageQueue
from aerobee.client.balance import Averagely
from aerobee.client.received import ReceivedMessage, decode_messages
from aerobee.client.route_cache import MASTER_ID, TopicRoute, parse_route
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
from simulation.clients import MemberNode
from simulation.ledger import Kind, Outcome, Place

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

    def __init__(self, offset: int) -> None:
        self.next_offset = offset
        self.done_before = offset
        self.dropped = False


class JavaNode(MemberNode):
    """A member that speaks as RocketMQ's Java client does."""

    async def join(self) -> None:
        """Heartbeat, rebalance, and go on with both."""
        self._stopping = False
        self._tasks = Tasks()
        self._queues: dict[MessageQueue, OwnedQueue] = {}
        self._routes: dict[str, TopicRoute] = {}
        self._masters: dict[str, str] = {}  # of every broker that a route ever named
        self._round = asyncio.Lock()
        self._client_id = f"{self.ip}@{self.lives}#java"
        self._sub_version = wall_clock_ms()
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
            ext = {"clientID": self._client_id, "consumerGroup": self.group}
            for address in self._brokers():
                await self._try(address, RequestCode.UNREGISTER_CLIENT, ext)
        await self._pool.close()

    def owned(self) -> list[Place]:
        """Return the queues that it pulls."""
        return [Place(at.topic, at.broker_name, at.queue_id) for at in self._queues]

    # --- timers and requests ---

    async def _repeat(self, interval_s: float, work: Any) -> None:
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
            return await self._pool.call(address, request, timeout_s)
        except AerobeeError:
            return None

    async def _find_routes(self) -> None:
        for topic in self.topics:
            for address in self.namesrv.split(";"):
                ext = {"topic": topic, "acceptStandardJsonOnly": "true"}
                reply = await self._try(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, ext)
                if reply is not None and reply.code == ResponseCode.SUCCESS:
                    route = parse_route(topic, decode_body(TopicRouteData, reply.body))
                    self._routes[topic] = route
                    for name, addresses in route.brokers.items():
                        self._masters[name] = addresses[MASTER_ID]
                    break

    def _brokers(self) -> list[str]:
        return sorted(self._masters.values())

    def _address(self, queue: MessageQueue) -> str:
        return self._masters[queue.broker_name]

    async def _heartbeat(self) -> None:
        subscriptions = [
            SubscriptionData(topic=topic, sub_string="*", sub_version=self._sub_version)
            for topic in self.topics
        ]
        consumer = ConsumerData(
            group_name=self.group,
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
            subscription_data_set=subscriptions,
        )
        data = HeartbeatData(client_id=self._client_id, consumer_data_set=[consumer])
        for address in self._brokers():
            await self._try(address, RequestCode.HEART_BEAT, body=encode_body(data))

    # --- sharing queues ---

    async def _rebalance_for_ever(self) -> None:
        while not self._stopping:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REBALANCE_S):
                    await self._wanted.wait()
            self._wanted.clear()
            async with self._round:
                for topic in self.topics:
                    if not self._stopping and topic in self._routes:
                        await self._share(topic)

    async def _share(self, topic: str) -> None:
        route = self._routes[topic]
        address = self.dice.choice([ids[MASTER_ID] for ids in route.brokers.values()])
        ext = {"consumerGroup": self.group}
        reply = await self._try(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, ext)
        if reply is None or reply.code != ResponseCode.SUCCESS:
            return
        members = sorted(decode_body(ConsumerListReply, reply.body).consumer_id_list)
        mine = Averagely().allocate(self.group, self._client_id, route.read_queues, members)
        changed = False
        for queue in [each for each in self._queues if each.topic == topic and each not in mine]:
            owned = self._queues.pop(queue)
            owned.dropped = changed = True
            await self._persist(queue, owned)
        for queue in mine:
            if queue not in self._queues:
                offset = await self._offset(queue)
                if offset is not None:
                    changed = True
                    self._queues[queue] = owned = OwnedQueue(offset)
                    self._tasks.start(self._pull(queue, owned))
        if changed:  # MessageQueueChanged: a newer version tells the brokers
            self._sub_version = max(wall_clock_ms(), self._sub_version + 1)
            await self._heartbeat()

    async def _offset(self, queue: MessageQueue) -> int | None:
        """Ask where to begin; 22 means at the first message, no answer that it is tried again."""
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        reply = await self._try(
            self._address(queue), RequestCode.QUERY_CONSUMER_OFFSET, self._of(queue), b"", OFFSET_S
        )
        waited_s = loop.time() - asked_s
        if reply is None:
            return None
        if waited_s > ANSWERED_WITHIN_S + ON_THE_WAY_S:
            place = Place(queue.topic, queue.broker_name, queue.queue_id)
            self.ledger.late_answer(self.name, place, waited_s)
        if reply.code == ResponseCode.SUCCESS:
            return int(reply.ext["offset"])
        if reply.code != ResponseCode.QUERY_NOT_FOUND:
            self.ledger.broke(Kind.SLOW, f"{self.name} asked 14, answer {reply.code}")
        return 0

    def _of(self, queue: MessageQueue, **more: object) -> dict[str, str]:
        fields = {"consumerGroup": self.group, "topic": queue.topic, "queueId": queue.queue_id}
        return {key: str(value) for key, value in (fields | more).items()}

    async def _persist_all(self) -> None:
        for queue, owned in list(self._queues.items()):
            await self._persist(queue, owned)

    async def _persist(self, queue: MessageQueue, owned: OwnedQueue) -> None:
        ext = self._of(queue, commitOffset=owned.done_before)
        try:
            await self._pool.oneway(
                self._address(queue), Command(RequestCode.UPDATE_CONSUMER_OFFSET, ext)
            )
        except AerobeeError:
            return

    # --- consuming ---

    async def _pull(self, queue: MessageQueue, owned: OwnedQueue) -> None:
        while not owned.dropped:
            flags = PullSysFlag.SUSPEND | (PullSysFlag.COMMIT_OFFSET if owned.done_before else 0)
            ext = self._of(
                queue,
                queueOffset=owned.next_offset,
                maxMsgNums=32,
                sysFlag=flags,
                commitOffset=owned.done_before,
                suspendTimeoutMillis=15_000,
                subVersion=self._sub_version,
                expressionType="TAG",
            )
            reply = await self._try(
                self._address(queue), RequestCode.PULL_MESSAGE, ext, b"", PULL_S
            )
            if owned.dropped:
                return
            if reply is None or "nextBeginOffset" not in reply.ext:
                await asyncio.sleep(PULL_AGAIN_S)
                continue
            owned.next_offset = int(reply.ext["nextBeginOffset"])
            if reply.code == ResponseCode.PULL_OFFSET_MOVED:
                owned.done_before = owned.next_offset
            if reply.code == ResponseCode.SUCCESS:
                await self._handle(owned, decode_messages(bytes(reply.body), queue))

    async def _handle(self, owned: OwnedQueue, messages: list[ReceivedMessage]) -> None:
        """Handle one after the other; what is under way at the drop is not counted."""
        for message in messages:
            if owned.dropped:
                return
            attempt = self.attempt(message)
            await asyncio.sleep(self.work_s())
            self.ledger.end(attempt, Outcome.DONE)
            owned.done_before = message.queue_offset + 1
