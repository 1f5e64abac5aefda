"""One pull as bytes: what the reply says of the queue, and the records as they came."""

import enum
from typing import Final, NamedTuple

from aerobee.client.cluster.brokers import Brokers
from aerobee.client.cluster.found import FoundReply
from aerobee.client.cluster.routes import MASTER_ID
from aerobee.client.errors import BrokerRefused
from aerobee.client.message import MessageQueue
from aerobee.remoting.codes import PullSysFlag, RequestCode, ResponseCode
from aerobee.remoting.command import Command
from aerobee.remoting.headers.pull import PullMessageReply
from aerobee.remoting.headers.typed import decode_header
from aerobee.remoting.words import TAG

_BYTES_MAX: Final = 2**31 - 1  # the broker's own limit is the one that counts


class PullStatus(enum.Enum):
    """The four outcomes of a pull (PullStatus.java)."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


_STATUS_BY_CODE: Final = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MSG,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MSG,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


class RawPull(NamedTuple):
    """What a pull brought: `body` holds whole records as the broker's log has them, in order.

    Offsets count messages of the queue; `asked` is the id of the broker that answered, `advised`
    of the one that it says to ask next.
    """

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    body: bytes | memoryview
    asked: int
    advised: int


def read_reply(reply: Command | FoundReply, address: str, asked: int) -> RawPull:
    """Read what the broker there answered; raises BrokerRefused for what is no outcome."""
    status = _STATUS_BY_CODE.get(reply.code)
    if status is None:
        assert isinstance(reply, Command)  # what was found is a success
        raise BrokerRefused(reply.code, reply.remark, address)
    header = (
        reply.header
        if isinstance(reply, FoundReply)
        else decode_header(PullMessageReply, reply.ext)
    )
    return RawPull(
        status,
        header.next_begin_offset,
        header.min_offset,
        header.max_offset,
        reply.body,
        asked,
        header.suggest_which_broker_id,
    )


class RawPuller:
    """Pulls for one group from any queue; joins, commits and holds nothing (PullAPIWrapper.java).

    The group is a name in the broker's statistics: no heartbeat tells of it. Who pulls so decodes
    many records at a time, and has a patience of his own with brokers that are not reached.
    """

    def __init__(self, brokers: Brokers, group: str, *, timeout_ms: int = 10_000) -> None:
        self._brokers = brokers
        self._timeout_ms = timeout_ms
        self._same = {
            "consumerGroup": group,
            "sysFlag": str(PullSysFlag.SUBSCRIPTION),
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "maxMsgBytes": str(_BYTES_MAX),
            "subscription": "*",
            "subVersion": "0",
            "expressionType": TAG,
        }

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        messages_max: int,
        broker_id: int = MASTER_ID,
        *,
        full_reply: bool = False,
    ) -> RawPull:
        """Ask the replica `broker_id`, or another where there is none, for messages from `offset`.

        The broker answers at once, with at most `messages_max` and as many as its own limits allow;
        Aerobee's, asked for a `full_reply`, with as many as that is, whatever `messages_max` says.
        Raises BrokerRefused for a code that is no outcome of a pull, Unavailable.
        """
        address, asked = await self._brokers.find_to_read(queue, broker_id)
        ext = self._same | {
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": str(messages_max),
            "bname": queue.broker_name,
        }
        if full_reply:
            ext["AEROBEE_FULL_REPLY"] = "true"  # others know nothing of it
        reply = await self._brokers.connections.call(
            address, RequestCode.PULL_MESSAGE, ext, timeout_ms=self._timeout_ms
        )
        return read_reply(reply, address, asked)
