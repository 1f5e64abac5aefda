"""Members of a group as single connections that do what real clients do, step by step."""

import asyncio
from typing import Any, Self

from aerobee.broker.members.notices import QUIET_S
from aerobee.remoting.bodies import (
    ConsumerData,
    HeartbeatData,
    LockBatchBody,
    QueueBody,
    SubscriptionData,
    encode_body,
)
from aerobee.remoting.codes import PullSysFlag, RequestCode, ResponseCode
from aerobee.remoting.command import VERSION, Command, Language
from aerobee.remoting.net.client import ConnectionPool
from aerobee.remoting.net.connection import Handler
from support.waiting import until

GROUP = "G"
TOPIC = "T"


class RawMember:
    """A client of one group: `timeout_ms` is that of a member of ours, None of any other."""

    consume_type = "CONSUME_PASSIVELY"

    def __init__(
        self,
        port: int,
        client_id: str,
        *,
        group: str = GROUP,
        timeout_ms: int | None = None,
        handler: Handler | None = None,
    ) -> None:
        self.client_id = client_id
        self.group = group
        self.timeout_ms = timeout_ms
        self.told: list[Command] = []
        self.version = 1
        self._address = f"127.0.0.1:{port}"
        self.language = Language.JAVA
        self.version_number = VERSION
        self._pool = ConnectionPool(
            handler or (lambda connection, command: self.told.append(command))
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Cut the connection, as a process that dies."""
        await self._pool.close()

    async def ask(self, code: int, body: bytes = b"", **fields: Any) -> Command:
        """Send one request."""
        ext = {key: str(value) for key, value in fields.items()}
        command = Command(code, ext, body, language=self.language, version=self.version_number)
        return await self._pool.call(self._address, command, 15.0)

    async def beat(self, *topics: str, newer: bool = False, model: str = "CLUSTERING") -> Command:
        """Send a heartbeat with subscriptions, by default to topic T."""
        self.version += newer
        consumer = ConsumerData(
            group_name=self.group,
            consume_type=self.consume_type,
            message_model=model,
            subscription_data_set=[
                SubscriptionData(topic=topic, sub_string="*", sub_version=self.version)
                for topic in topics or (TOPIC,)
            ],
            handover_timeout_millis=self.timeout_ms,
        )
        data = HeartbeatData(client_id=self.client_id, consumer_data_set=[consumer])
        return await self.ask(RequestCode.HEART_BEAT, encode_body(data))

    async def hears(self, code: int) -> None:
        """Wait until the broker has told it something."""
        await until(lambda: any(told.code == code for told in self.told), what=f"code {code}")

    async def settled(self) -> None:
        """Return once it has heard of all changes so far, of a broker in the same loop."""
        await asyncio.sleep(2 * QUIET_S)  # the broker's timers are due before this one,
        await self.ask(
            RequestCode.GET_MAX_OFFSET, topic=TOPIC, queueId=0
        )  # what it told before this

    async def members(self) -> Command:
        """Ask who is in the group (38), as every rebalancing begins."""
        return await self.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=self.group)

    async def start_of(self, queue_id: int = 0, topic: str = TOPIC) -> Command:
        """Ask where the group stopped in a queue (14)."""
        return await self.ask(
            RequestCode.QUERY_CONSUMER_OFFSET,
            consumerGroup=self.group,
            topic=topic,
            queueId=queue_id,
        )

    def starting(self, queue_id: int = 0, topic: str = TOPIC) -> "asyncio.Task[Command]":
        """Ask likewise, and do something else meanwhile."""
        return asyncio.create_task(self.start_of(queue_id, topic))

    async def commit(self, offset: int, queue_id: int = 0, topic: str = TOPIC) -> Command:
        """Commit an offset (15)."""
        return await self.ask(
            RequestCode.UPDATE_CONSUMER_OFFSET,
            consumerGroup=self.group,
            topic=topic,
            queueId=queue_id,
            commitOffset=offset,
        )

    async def lock(self, *queue_ids: int, topic: str = TOPIC) -> Command:
        """Lock queues for ordered consumption (41)."""
        return await self._ask_for(RequestCode.LOCK_BATCH_MQ, queue_ids, topic)

    async def unlock(self, *queue_ids: int, topic: str = TOPIC) -> Command:
        """Give queues up (42)."""
        return await self._ask_for(RequestCode.UNLOCK_BATCH_MQ, queue_ids, topic)

    async def _ask_for(self, code: int, queue_ids: tuple[int, ...], topic: str) -> Command:
        queues = [
            QueueBody(topic=topic, broker_name="broker-a", queue_id=queue_id)
            for queue_id in queue_ids
        ]
        body = LockBatchBody(consumer_group=self.group, client_id=self.client_id, mq_set=queues)
        return await self.ask(code, encode_body(body))

    async def leave(self) -> Command:
        """Leave the group (35)."""
        return await self.ask(
            RequestCode.UNREGISTER_CLIENT, clientID=self.client_id, consumerGroup=self.group
        )

    async def pull(
        self, offset: int, queue_id: int = 0, *, suspend_ms: int = 0, commit: int | None = None
    ) -> Command:
        """Pull from a queue (11); `commit` rides on it."""
        flags = PullSysFlag.SUSPEND if suspend_ms else 0
        flags |= PullSysFlag.COMMIT_OFFSET if commit is not None else 0
        return await self.ask(
            RequestCode.PULL_MESSAGE,
            consumerGroup=self.group,
            topic=TOPIC,
            queueId=queue_id,
            queueOffset=offset,
            maxMsgNums=32,
            sysFlag=flags,
            commitOffset=commit or 0,
            suspendTimeoutMillis=suspend_ms,
            subVersion=0,
        )


def offset_of(reply: Command) -> int:
    """Return the offset of a reply to 14."""
    assert reply.code == ResponseCode.SUCCESS, reply
    return int(reply.ext["offset"])
