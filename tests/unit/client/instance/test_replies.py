"""What brokers push as replies: given to who waits, refused where it is none, else dropped."""

import asyncio
import logging
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerobee.client.instance.replies import AwaitedReplies
from aerobee.remoting.codes import SysFlag
from aerobee.remoting.complaints import TOLD_MAX
from aerobee.remoting.errors import RequestError
from aerobee.remoting.headers.send import PushReplyRequest


def pushed(correlation_id: str = "c", **fields: object) -> PushReplyRequest:
    """Return the header of a reply."""
    values: dict[str, object] = {
        "producer_group": "g", "topic": "R", "default_topic": "TBW102",
        "default_topic_queue_nums": 4, "queue_id": 3, "sys_flag": 0, "born_timestamp": 11,
        "flag": 5, "properties": f"CORRELATION_ID\x01{correlation_id}\x02TAGS\x01A\x02",
        "born_host": "10.0.0.9:1234", "store_host": "10.0.0.1:10911", "store_timestamp": 22,
    }  # fmt: skip
    return PushReplyRequest(**(values | fields))  # type: ignore[arg-type]


async def test_a_reply_is_what_its_header_says() -> None:
    """As if it had been pulled; unpacked, and with the time of its arrival."""
    replies = AwaitedReplies()
    with replies.awaited("c") as waiting:
        packed = zlib.compress(b"answer")
        replies.arrived(pushed(sys_flag=SysFlag.COMPRESSED), packed)
        message = waiting.result()
    assert (message.body, message.body_bytes, message.tags) == (b"answer", len(packed), "A")
    assert (message.queue.topic, message.queue.queue_id, message.flag) == ("R", 3, 5)
    assert (message.born_host, message.store_host) == (("10.0.0.9", 1234), ("10.0.0.1", 10911))
    assert (message.born_timestamp_ms, message.store_timestamp_ms) == (11, 22)
    assert message.properties["ARRIVE_TIME"].isdigit() and len(replies) == 0


async def test_what_nobody_waits_for_is_no_error() -> None:
    """Of others, too late, twice, after a cancelled wait, without an id: counted and dropped."""
    replies = AwaitedReplies()
    with replies.awaited("c") as waiting:
        replies.arrived(pushed("other"), b"x")
        replies.arrived(pushed(properties=None), b"x")
        replies.arrived(pushed(), b"first")
        replies.arrived(pushed(), b"second")
        assert (await waiting).body == b"first"
    replies.arrived(pushed(), b"late")
    with replies.awaited("c") as waiting:
        waiting.cancel()
        replies.arrived(pushed(), b"x")
    assert replies.unwanted == 5


async def test_a_large_reply_of_gos_client_is_taken_as_it_is() -> None:
    """It is marked as packed, and is not; what names its codec, or begins as zlib does, is."""
    for body in (b"plain " * 1_000, bytes(5_000), b"y", b"x\x9d" * 3_000):
        replies = AwaitedReplies()
        with replies.awaited("c") as waiting:
            replies.arrived(pushed(sys_flag=SysFlag.COMPRESSED), body)
            assert (await waiting).body == body


async def test_ten_thousand_that_nobody_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    """Counted, not kept, not unpacked, and told a few times; who waits is not disturbed."""
    replies = AwaitedReplies()
    bomb = zlib.compress(bytes(1 << 20))
    with replies.awaited("c") as waiting, caplog.at_level(logging.INFO):
        for number in range(10_000):
            replies.arrived(pushed(f"c{number}", sys_flag=SysFlag.COMPRESSED), bomb)
        for hostile in ("", "c\x01", "C", " c", "c " * 5_000):
            replies.arrived(pushed(hostile), b"x")
        assert not waiting.done() and replies.unwanted == 10_005 and len(replies) == 1
    assert len(caplog.records) <= TOLD_MAX


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ({"sys_flag": SysFlag.COMPRESSED}, b"\x78\x9c is no zlib"),
        ({"sys_flag": SysFlag.COMPRESSED}, zlib.compress(b"answer")[:-1]),
        ({"sys_flag": SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB}, b"no zlib"),
        ({"sys_flag": SysFlag.COMPRESSED | 7 << 8}, b"no such codec"),
        ({"born_host": "nowhere"}, b"x"),
        ({"store_host": "a name:80"}, b"x"),
        ({"store_host": "name:80"}, b"x"),
    ],
)
async def test_what_is_no_reply_is_refused(fields: dict[str, Any], body: bytes) -> None:
    """In RocketMQ's words; whoever waits goes on, for the replier may try again."""
    replies = AwaitedReplies()
    with replies.awaited("c") as waiting:
        with pytest.raises(RequestError, match="process reply message fail"):
            replies.arrived(pushed(**fields), body)
        assert not waiting.done()
        replies.arrived(pushed(), b"sound")
        assert waiting.result().body == b"sound"


@given(st.text(), st.text(), st.binary(max_size=50), st.integers(0, 0x7FFF))
def test_anything_may_be_pushed(properties: str, host: str, body: bytes, sys_flag: int) -> None:
    """Brokers are believed as little as other peers: a message, a refusal, or nothing."""

    async def push() -> None:
        replies = AwaitedReplies()
        with replies.awaited("c"):
            header = pushed(
                properties=f"CORRELATION_ID\x01c\x02{properties}", born_host=host, sys_flag=sys_flag
            )
            try:
                replies.arrived(header, body)
            except RequestError as error:
                assert error.remark == "process reply message fail"

    asyncio.run(push())
