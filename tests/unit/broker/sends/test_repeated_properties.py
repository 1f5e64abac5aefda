"""Messages with several properties of one name: of them the last counts, for everybody."""

from pathlib import Path

import pytest
from support.raw_peer import RawPeer
from support.servers.brokers import running_broker, send_command

from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.remoting.message.batch import BatchedMessage, encode_batch
from aerobee.remoting.message.properties import parse_properties
from aerobee.remoting.message.tags import java_string_hash

CASES = (
    "UNIQ_KEY\x01A1\x02TAGS\x01first\x02TAGS\x01last\x02",
    "TAGS\x01first\x02UNIQ_KEY\x01A1\x02TAGS\x01last",
    "TAGS\x01only\x02TAGS\x01\x02UNIQ_KEY\x01A1\x02",
    "UNIQ_KEY\x01A1\x02TAGS\x01first\x02XTAGS\x01other\x02",
    "UNIQ_KEY\x01A1\x02a\x01TAGS\x01b\x02",
    "UNIQ_KEY\x01A1\x02UNIQ_KEY\x01A2\x02TAGS\x01only\x02",
)


@pytest.mark.parametrize("compiled", ["true", "false"])
@pytest.mark.parametrize("batched", [False, True])
async def test_queue_and_reply_tell_of_the_last_one(
    tmp_path: Path, *, compiled: str, batched: bool
) -> None:
    """A queue that had another tag's hash would keep the message from who asks for its tag."""
    async with (
        running_broker(tmp_path, compiledFastPath=compiled) as broker,
        await RawPeer.connect(broker.port) as peer,
    ):
        await peer.request(send_command())
        await peer.request(send_command())
        for offset, text in enumerate(CASES, 2):
            command = send_command(properties=text)
            if batched:
                body = encode_batch([BatchedMessage(0, b"x", text.encode())])
                command = send_command(body, code=RequestCode.SEND_BATCH_MESSAGE, m="true")
            reply = await peer.request(command)
            assert reply.code == ResponseCode.SUCCESS
            read = parse_properties(text)
            queue = broker.context.store.find_queue("T", 0)
            assert queue is not None
            assert queue.entry(offset)[2] == java_string_hash(read.get("TAGS", "")), text
            if not batched:
                assert reply.ext["transactionId"] == read["UNIQ_KEY"]
