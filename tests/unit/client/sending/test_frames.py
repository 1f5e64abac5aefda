"""Frames made from templates say what a typed header says."""

import pytest

from aerobee.client.message import Message, MessageQueue
from aerobee.client.sending.frames import SendHeaders
from aerobee.client.sending.outgoing import Outgoing, Packer
from aerobee.client.settings import ProducerSettings
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.command import Command
from aerobee.remoting.frame import FrameReader
from aerobee.remoting.headers.send import SendMessageRequestV2
from aerobee.remoting.headers.typed import encode_header

QUEUE = MessageQueue("%RETRY%o\\rders", 'broker-"a" %d', 3)
SETTINGS = ProducerSettings(create_topic_key="50%d", default_topic_queues=7)


def typed(outgoing: Outgoing, group: str, *, batch: bool) -> dict[str, str]:
    """Return the fields of the same request by its header type."""
    return encode_header(
        SendMessageRequestV2(
            producer_group=group,
            topic=QUEUE.topic,
            default_topic="50%d",
            default_topic_queue_nums=7,
            queue_id=3,
            sys_flag=outgoing.sys_flag,
            born_timestamp=outgoing.born_ms,
            flag=outgoing.flag,
            properties=outgoing.properties,
            reconsume_times=0,
            unit_mode=False,
            batch=batch,
            broker_name=QUEUE.broker_name,
        )
    )


@pytest.mark.parametrize("oneway", [False, True])
@pytest.mark.parametrize(
    "message",
    [
        Message(QUEUE.topic, b"plain", tags="a", keys="k"),
        Message(QUEUE.topic, b"odd", tags='"%s"\n', properties={"ü": "\\ %b %%"}, flag=-5),
        Message(QUEUE.topic, b"long" * 2000),
    ],
)
def test_a_frame_says_what_its_typed_header_says(message: Message, oneway: bool) -> None:
    """Also where texts need escapes, or look like a template's own signs."""
    packer, headers = Packer("g%d", SETTINGS), SendHeaders("g%d", SETTINGS)
    for opaque in (1, 2**31 - 1):
        outgoing = packer.pack(message)
        frame = headers.frame(outgoing, QUEUE, opaque, oneway=oneway)
        (command,) = read(frame)
        assert command.ext == typed(outgoing, "g%d", batch=False) == packer.fields(outgoing, QUEUE)
        assert command.body == outgoing.body
        assert (command.opaque, command.is_oneway) == (opaque, oneway)
        assert command.code == RequestCode.SEND_MESSAGE_V2


def test_batches_have_a_code_and_a_mark() -> None:
    """Several messages travel as one request of another code."""
    outgoing = Packer("g%d", SETTINGS).pack_batch([Message("t", b"1"), Message("t", b"2")])
    (command,) = read(SendHeaders("g", SETTINGS).frame(outgoing, QUEUE, 9))
    assert command.code == RequestCode.SEND_BATCH_MESSAGE
    assert command.ext == typed(outgoing, "g", batch=True)


def read(data: bytes) -> list[Command]:
    """Return the commands of whole frames."""
    reader = FrameReader()
    reader.feed(data)
    return list(reader)
