"""A static topic over brokers in this process, made and mapped anew as mqadmin does it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from aerobee.broker.features.static_topics.feature import StaticTopics
from aerobee.namesrv.app import NameServer
from aerobee.namesrv.settings import NamesrvSettings
from aerobee.remoting.bodies import LogicQueueMappingItem, TopicQueueMappingDetail, encode_body
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Command
from aerobee.remoting.message.record import Record, iter_records
from support.servers.live_broker import LiveBroker, live_broker

TOPIC: Final = "static"
PULL_FLAGS: Final = 4  # brings its subscription


class Piece(NamedTuple):
    """A stretch of a logical queue: broker, physical queue, and where it begins."""

    broker: str
    queue_id: int
    offset: int = 0


def items(pieces: Sequence[Piece]) -> list[LogicQueueMappingItem]:
    """Return the stretches of a logical queue, oldest first."""
    return [
        LogicQueueMappingItem(
            gen=gen, queue_id=piece.queue_id, bname=piece.broker, logic_offset=piece.offset
        )
        for gen, piece in enumerate(pieces)
    ]


def detail(
    broker: str, epoch: int, queues: dict[int, list[Piece]], total: int = 2, topic: str = TOPIC
) -> TopicQueueMappingDetail:
    """Return the mapping of a topic on one broker."""
    return TopicQueueMappingDetail(
        topic=topic,
        total_queues=total,
        bname=broker,
        epoch=epoch,
        hosted_queues={queue_id: items(pieces) for queue_id, pieces in queues.items()},
    )


class StaticCluster:
    """Brokers "a" and "b" of one nameserver."""

    def __init__(self, brokers: dict[str, LiveBroker], namesrv: NameServer | None) -> None:
        self.brokers = brokers
        self._namesrv = namesrv

    @property
    def namesrv(self) -> str:
        """Return where the nameserver is."""
        assert self._namesrv is not None
        return f"127.0.0.1:{self._namesrv.port}"

    async def map(
        self,
        broker: str,
        epoch: int,
        queues: dict[int, list[Piece]],
        *,
        force: bool = False,
        physical: int = 2,
    ) -> Command:
        """Have a broker take its part of a mapping (513)."""
        ext = {
            "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": physical,
            "writeQueueNums": physical, "perm": 6, "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0, "order": "false", "force": "true" if force else "false",
        }  # fmt: skip
        body = encode_body(detail(broker, epoch, queues))
        return await self.brokers[broker].ask(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, ext, body)

    async def send(self, broker: str, queue_id: int, body: bytes) -> Command:
        """Send one message to a logical queue."""
        header = {
            "a": "p", "b": TOPIC, "c": "TBW102", "d": 4, "e": queue_id, "f": 0, "g": 1, "h": 0,
        }  # fmt: skip
        return await self.brokers[broker].ask(RequestCode.SEND_MESSAGE_V2, header, body)

    async def pull(self, broker: str, queue_id: int, offset: int, **ext: Any) -> Command:
        """Pull from a logical queue as group g."""
        header = {
            "consumerGroup": "g", "topic": TOPIC, "queueId": queue_id, "queueOffset": offset,
            "maxMsgNums": 32, "sysFlag": PULL_FLAGS, "commitOffset": 0, "suspendTimeoutMillis": 0,
            "subscription": "*", "subVersion": 0, "expressionType": "TAG",
        } | ext  # fmt: skip
        return await self.brokers[broker].ask(RequestCode.PULL_MESSAGE, header)

    async def ask(self, broker: str, code: int, queue_id: int, **ext: Any) -> Command:
        """Ask about a logical queue, as group g where a group is asked for."""
        named = {"topic": TOPIC, "queueId": queue_id, "consumerGroup": "g"} | ext
        return await self.brokers[broker].ask(code, named)

    def feature(self, broker: str) -> StaticTopics:
        """Return who knows the mappings of a broker."""
        rooms = self.brokers[broker].broker.rooms
        return next(room for room in rooms if isinstance(room, StaticTopics))


def bodies(reply: Command) -> list[bytes]:
    """Return the bodies of the messages that a pull has found."""
    return [bytes(record.body) for record in records(reply)]


def records(reply: Command) -> list[Record]:
    """Return the messages that a pull has found."""
    return list(iter_records(reply.body))


@asynccontextmanager
async def static_cluster(folder: Path, **settings: Any) -> AsyncIterator[StaticCluster]:
    """Start a nameserver and two brokers."""
    async with AsyncExitStack() as stack:
        namesrv = NameServer(
            NamesrvSettings(listen_port=0, bind_address="127.0.0.1", kv_config_path=folder / "kv")
        )
        await namesrv.start()
        stack.push_async_callback(namesrv.stop)
        brokers = {}
        for name in ("a", "b"):
            brokers[name] = await stack.enter_async_context(
                live_broker(
                    folder / name,
                    broker_name=name,
                    namesrv_addr=f"127.0.0.1:{namesrv.port}",
                    **settings,
                )
            )
        yield StaticCluster(brokers, namesrv)
