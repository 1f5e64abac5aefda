"""Topics made on brokers over the wire, so that it works for brokers of any process."""

from typing import Final

from aerobee.remoting.codes import Perm, RequestCode, ResponseCode
from aerobee.remoting.command import Command, next_opaque
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers._fields import encode_header
from aerobee.remoting.headers.topics import CreateTopicRequest
from aerobee.remoting.net.client import ConnectionPool

TIMEOUT_S: Final = 5.0
_DEFAULT_TOPIC: Final = "TBW102"  # TopicValidator.AUTO_CREATE_TOPIC_KEY_TOPIC


async def create_topic(address: str, topic: str, queues: int = 4) -> None:
    """Make a topic, or change its number of queues, on the broker at `address`.

    The broker has told its nameservers when this returns. Raises RequestError with the broker's
    code and text if it refuses, Unavailable if it cannot be reached.
    """
    header = CreateTopicRequest(
        topic=topic,
        default_topic=_DEFAULT_TOPIC,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=Perm.READ | Perm.WRITE,
    )
    request = Command(
        RequestCode.UPDATE_AND_CREATE_TOPIC, encode_header(header), opaque=next_opaque()
    )
    pool = ConnectionPool()
    try:
        reply = await pool.call(address, request, TIMEOUT_S)
    finally:
        await pool.close()
    if reply.code != ResponseCode.SUCCESS:
        raise RequestError(reply.code, reply.remark or f"{address} refused topic {topic}")
