"""A nameserver and brokers in memory, over real sockets, that do what a test tells them.

They know enough of RocketMQ to be sent to, pulled from and shared by groups; `script` makes the
next requests of a code end as the test wants (not those for retry topics, which every group reads
on the side), and `seen` keeps every request.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, Self

from aerobee.remoting.bodies import (
    BrokerData,
    ConsumerListReply,
    HeartbeatData,
    QueueData,
    TopicRouteData,
    decode_body,
    encode_body,
)
from aerobee.remoting.codes import Perm, PullSysFlag, RequestCode, ResponseCode
from aerobee.remoting.command import FLAG_ONEWAY, Command
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers import heartbeat, offsets, pull, route, send
from aerobee.remoting.message.batch import split_batch
from aerobee.remoting.message.message_id import offset_message_id
from aerobee.remoting.message.properties import find_property
from aerobee.remoting.message.record import Record, encode_record
from aerobee.remoting.message.tags import java_string_hash
from aerobee.remoting.msgpack_header import EXT_MSGPACK
from aerobee.remoting.net.budget import Budget
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.limits import NetLimits
from aerobee.remoting.net.routes import Dispatcher, Outcome, Reply, Request, Routes
from aerobee.remoting.net.server import Server
from aerobee.remoting.net.tls import TlsSettings
from support.stand_ins.fake_index import routes as index_routes
from support.stand_ins.fake_ownership import Owners
from support.stand_ins.fake_ownership import routes as ownership_routes
from support.stand_ins.fake_retries import routes as retry_routes
from support.stand_ins.fake_timers import handle_for
from support.stand_ins.fake_timers import routes as timer_routes
from support.stand_ins.fake_transactions import routes as transaction_routes

routes: Routes["FakeBroker"] = Routes("fake")
Script = Callable[[Connection, Command], Outcome]


class FakeBroker:
    """One broker; `queues` is the number that created topics get."""

    def __init__(self, name: str, cluster: "FakeCluster") -> None:
        self.name = name
        self.cluster = cluster
        self.perm = Perm.READ | Perm.WRITE
        self.seen: list[Command] = []
        self.script: dict[int, deque[Script]] = defaultdict(deque)
        self.topics: dict[str, int] = {}
        self.creates_retry_topics = True
        self.read_queues: dict[str, int] = {}  # of topics that can be read in other queues
        self.log: dict[tuple[str, int], list[Record]] = defaultdict(list)
        self.first_offset: dict[tuple[str, int], int] = defaultdict(int)
        self.committed: dict[tuple[str, str, int], int] = {}
        self.members: dict[str, dict[Connection, str]] = defaultdict(dict)
        self.heartbeats: list[HeartbeatData] = []
        self.producers: dict[str, Connection] = {}  # by group, the last that said so
        self.connections: set[Connection] = set()
        self.msgpack = False
        self.handover = False  # whether it offers members to keep queues until their release
        self.handover_wait_s = 0.2
        self.owners = Owners()
        self.found_max = 64  # maxMsgsNumBatch
        self.full_reply_messages = 0  # given to who asks for a full reply; 0: it knows of none
        self._stored = 0
        self._arrived = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()
        families = [index_routes, ownership_routes, retry_routes, timer_routes, transaction_routes]
        self._dispatch = Dispatcher(self, [routes, *families], self._spawn)

    async def start(self, port: int = 0) -> None:
        """Listen on a port, or a free one."""
        self.server = await Server.start(
            self._connection, "127.0.0.1", port, limits=NetLimits(), tls=self.cluster.tls
        )
        self.address = f"127.0.0.1:{self.server.port}"

    async def stop(self) -> None:
        """Close the port and every connection."""
        for task in list(self.tasks):
            task.cancel()
        await self.server.close()

    def requests(self, code: int) -> list[Command]:
        """Return the requests of one code that came so far."""
        return [command for command in self.seen if command.code == code]

    def refuse(self, code: int, reply: int, times: int = 1) -> None:
        """Answer the next requests of `code` with an error code."""
        for _ in range(times):
            self.script[code].append(lambda *_: Reply(code=reply, remark="as the test wants"))

    def store(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        properties: bytes = b"",
        reconsume_times: int = 0,
    ) -> int:
        """Append a message; return its offset."""
        self._stored += 1
        records = self.log[topic, queue_id]
        offset = self.first_offset[topic, queue_id] + len(records)
        record = Record(
            topic=topic,
            queue_id=queue_id,
            queue_offset=offset,
            position=1000 * self._stored,
            reconsume_times=reconsume_times,
            body=body,
            properties=properties,
            store_timestamp=1_700_000_000_000 + offset,
            store_host=("127.0.0.1", self.server.port),
        )
        records.append(record)
        self._arrived.set()
        self._arrived = asyncio.Event()
        return offset

    def notify(self, group: str) -> None:
        """Tell every member of a group that its members changed."""
        for connection in list(self.members[group]):
            connection.send(
                Command(
                    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
                    {"consumerGroup": group},
                    flag=FLAG_ONEWAY,
                )
            )

    async def wait_arrival(self, seconds: float) -> None:
        """Return when a message is stored, or time is up."""
        try:
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        except TimeoutError:
            pass

    def _connection(self, budget: Budget) -> Connection:
        connection = Connection(self._serve, NetLimits(), budget)
        connection.on_closed.append(self._closed)
        self.connections.add(connection)
        return connection

    def _closed(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self.owners.release_all(connection)
        for group, members in self.members.items():
            if members.pop(connection, None) is not None:
                self.notify(group)

    def _serve(self, connection: Connection, command: Command) -> None:
        self.seen.append(command)
        script = self.script.get(command.code)
        if not script or command.ext.get("topic", "").startswith("%RETRY%"):
            self._dispatch(connection, command)
            return
        outcome = script.popleft()(connection, command)
        if isinstance(outcome, Reply):
            connection.send(command.reply(outcome.code, outcome.ext, outcome.body, outcome.remark))

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task


class FakeCluster:
    """A nameserver and the brokers that it names; `async with` starts and stops all."""

    def __init__(self, brokers: int = 1, tls: TlsSettings | None = None) -> None:
        self.tls = tls
        self.brokers = [FakeBroker(f"broker-{chr(97 + at)}", self) for at in range(brokers)]
        self._made = tuple(self.brokers)  # a test may take some out of the list
        self.orders: dict[str, str] = {}
        self.listed: set[str] = {broker.name for broker in self.brokers}

    async def __aenter__(self) -> Self:
        """Start every broker; the first is the nameserver as well."""
        for broker in self.brokers:
            await broker.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop every broker."""
        for broker in self._made:
            await broker.stop()

    @property
    def namesrv(self) -> str:
        """The nameserver's address."""
        return self.brokers[0].address

    def tasks(self) -> set[asyncio.Task[None]]:
        """Return the tasks that serve requests at the moment."""
        return {task for broker in self.brokers for task in broker.tasks}

    def create(self, topic: str, queues: int = 4) -> None:
        """Create a topic on every broker."""
        for broker in self.brokers:
            broker.topics[topic] = queues

    def route(self, topic: str) -> TopicRouteData | None:
        """Return the topic's route, or None if it is unknown."""
        having = [
            each for each in self.brokers if topic in each.topics and each.name in self.listed
        ]
        if not having:
            return None
        return TopicRouteData(
            order_topic_conf=self.orders.get(topic),
            queue_datas=[
                QueueData(
                    broker_name=broker.name,
                    read_queue_nums=broker.read_queues.get(topic, broker.topics[topic]),
                    write_queue_nums=broker.topics[topic],
                    perm=broker.perm,
                )
                for broker in having
            ],
            broker_datas=[
                BrokerData(cluster="c", broker_name=each.name, broker_addrs={0: each.address})
                for each in having
            ],
        )


@routes.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, route.RouteInfoRequest)
def find_route(broker: FakeBroker, request: Request[route.RouteInfoRequest]) -> Outcome:
    """Answer as a nameserver."""
    data = broker.cluster.route(request.header.topic)
    if data is None:
        raise RequestError(ResponseCode.TOPIC_NOT_EXIST, "No topic route info in name server")
    return Reply(body=encode_body(data))


@routes.on(RequestCode.SEND_MESSAGE_V2, send.SendMessageRequestV2)
def store_one(broker: FakeBroker, request: Request[send.SendMessageRequestV2]) -> Outcome:
    """Store one message, creating its topic if need be."""
    header = request.header
    _create(broker, header)
    body, properties = bytes(request.command.body), (header.properties or "").encode()
    times = header.reconsume_times or 0
    offset = broker.store(header.topic, header.queue_id, body, properties, times)
    return send.SendMessageReply(
        msg_id=offset_message_id("127.0.0.1", broker.server.port, 1000 * offset),
        queue_id=header.queue_id,
        queue_offset=offset,
        recall_handle=handle_for(broker, header.topic, header.properties),
    )


@routes.on(RequestCode.SEND_BATCH_MESSAGE, send.SendMessageRequestV2)
def store_batch(broker: FakeBroker, request: Request[send.SendMessageRequestV2]) -> Outcome:
    """Store the messages of a batch."""
    header = request.header
    _create(broker, header)
    stored = [
        broker.store(header.topic, header.queue_id, bytes(each.body), bytes(each.properties))
        for each in split_batch(bytes(request.command.body))
    ]
    ids = [offset_message_id("127.0.0.1", broker.server.port, 1000 * at) for at in stored]
    return send.SendMessageReply(
        msg_id=",".join(ids), queue_id=header.queue_id, queue_offset=stored[0]
    )


def _create(broker: FakeBroker, header: send.SendMessageRequestV2) -> None:
    if header.topic not in broker.topics:
        if header.default_topic not in broker.topics:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
        broker.topics[header.topic] = header.default_topic_queue_nums


@routes.on(RequestCode.PULL_MESSAGE, pull.PullMessageRequest)
@routes.on(RequestCode.LITE_PULL_MESSAGE, pull.PullMessageRequest)
async def pull_messages(broker: FakeBroker, request: Request[pull.PullMessageRequest]) -> Outcome:
    """Return records, or hold the request until there are some."""
    header = request.header
    at = header.topic, header.queue_id
    if header.sys_flag & PullSysFlag.COMMIT_OFFSET:
        broker.committed[header.consumer_group, *at] = header.commit_offset
    loop = asyncio.get_running_loop()
    deadline = loop.time() + header.suspend_timeout_millis / 1000
    while True:
        oldest = broker.first_offset[at]
        newest = oldest + len(broker.log[at])
        if not oldest <= header.queue_offset <= newest:
            moved = oldest if header.queue_offset < oldest else newest
            return _pulled(ResponseCode.PULL_OFFSET_MOVED, moved, oldest, newest)
        most = (header.full_reply and broker.full_reply_messages) or header.max_msg_nums
        records = broker.log[at][header.queue_offset - oldest :][:most]
        if records:
            after = records[-1].queue_offset + 1
            wanted = _filter(header, records)
            code = ResponseCode.SUCCESS if wanted else ResponseCode.PULL_RETRY_IMMEDIATELY
            body = b"".join(encode_record(record) for record in wanted)
            return _pulled(code, after, oldest, newest, body)
        if loop.time() >= deadline:
            return _pulled(ResponseCode.PULL_NOT_FOUND, header.queue_offset, oldest, newest)
        await broker.wait_arrival(deadline - loop.time())


def _filter(header: pull.PullMessageRequest, records: list[Record]) -> list[Record]:
    """Leave out by tag hash, as brokers do; a subscription in the request is needed for it."""
    expression = header.subscription or "*"
    if expression == "*":
        return records
    hashes = {java_string_hash(tag.strip()) for tag in expression.split("||")}
    return [
        record
        for record in records
        if java_string_hash(find_property(record.properties, "TAGS") or "") in hashes
    ]


def _pulled(code: int, after: int, oldest: int, newest: int, body: bytes = b"") -> Reply:
    header = pull.PullMessageReply(
        suggest_which_broker_id=0, next_begin_offset=after, min_offset=oldest, max_offset=newest
    )
    return Reply(header, body=body, code=code)


@routes.on(RequestCode.HEART_BEAT)
def heartbeat_came(broker: FakeBroker, request: Request[Any]) -> Outcome:
    """Register the members and tell the groups that grew."""
    data = decode_body(HeartbeatData, request.command.body)
    broker.heartbeats.append(data)
    for each in data.producer_data_set:
        broker.producers[each.group_name] = request.connection
    for consumer in data.consumer_data_set:
        if consumer.message_model == "CLUSTERING" and broker.creates_retry_topics:
            broker.topics.setdefault(f"%RETRY%{consumer.group_name}", 1)
        members = broker.members[consumer.group_name]
        if request.connection not in members:
            members[request.connection] = data.client_id
            broker.notify(consumer.group_name)
    asked = request.command.ext.get(EXT_MSGPACK) == "true"
    announced = any(each.handover_timeout_millis is not None for each in data.consumer_data_set)
    return heartbeat.HeartbeatReply(
        msgpack=True if broker.msgpack and asked else None,
        handover=True if broker.handover and announced else None,
    )


@routes.on(RequestCode.UNREGISTER_CLIENT, heartbeat.UnregisterClientRequest)
def unregister(broker: FakeBroker, request: Request[heartbeat.UnregisterClientRequest]) -> Outcome:
    """Forget a member and tell its group."""
    group = request.header.consumer_group
    if group and broker.members[group].pop(request.connection, None) is not None:
        broker.owners.release_all(request.connection, group)
        broker.notify(group)
    return Reply()


@routes.on(RequestCode.GET_CONSUMER_LIST_BY_GROUP, heartbeat.ConsumerListRequest)
def list_members(broker: FakeBroker, request: Request[heartbeat.ConsumerListRequest]) -> Outcome:
    """Return the group's client ids."""
    members = broker.members[request.header.consumer_group]
    if not members:
        raise RequestError(ResponseCode.SYSTEM_ERROR, "no consumer for this group")
    return Reply(body=encode_body(ConsumerListReply(consumer_id_list=list(members.values()))))


@routes.on(RequestCode.UPDATE_CONSUMER_OFFSET, offsets.UpdateConsumerOffsetRequest)
def update_offset(
    broker: FakeBroker, request: Request[offsets.UpdateConsumerOffsetRequest]
) -> Outcome:
    """Keep the committed offset."""
    header = request.header
    broker.committed[header.consumer_group, header.topic, header.queue_id] = header.commit_offset
    return Reply()
