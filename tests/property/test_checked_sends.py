"""Fast and checked sends agree: the same bytes in the log, the same code and header in replies."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.servers.brokers import send_command
from support.servers.twin_brokers import TwinBrokers

from aerobee.remoting.codes import RequestCode
from aerobee.remoting.frame import FrameReader, encode_frame
from aerobee.remoting.message.batch import BatchedMessage, encode_batch

SETTINGS: Final = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
NAMES: Final = (
    "UNIQ_KEY", "TAGS", "KEYS", "WAIT", "DELAY", "TRAN_MSG", "POP_CK", "INNER_NUM", "INNER_BASE",
    "INNER_MULTI_DISPATCH", "INNER_BATCH", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS",
    "TIMER_DEL_UNIQKEY", "TIMER_OUT_MS", "AEROBEE_DELAYED", "MSG_REGION", "TRACE_ON", "CLUSTER",
    "MY_CLUSTER", "XTAGS", "TAGSX", "DEL", "POP_", "TRAN_", "__transactionId__", "REAL_TOPIC", "a",
)  # fmt: skip

names = st.one_of(st.sampled_from(NAMES), st.sampled_from(["", "\x01", "é", "n" * 40]))
values = st.sampled_from(["A1", "true", "1", "0", "-1", "99", "x", "", "a b", "v\x01w", "é", "1-0"])
pieces = st.one_of(
    st.tuples(names, values).map("\x01".join),
    st.sampled_from(["", "no separator", "\x01", "\x01value", "name\x01", "a\x01TAGS\x01b"]),
)
properties = st.tuples(st.lists(pieces, max_size=6), st.booleans(), st.booleans()).map(
    lambda drawn: (
        ("UNIQ_KEY\x01K7\x02" if drawn[1] else "")
        + "\x02".join(drawn[0])
        + ("\x02" if drawn[2] else "")
    )
)
sys_flags = st.sampled_from([0, 0, 0, 1, 2, 3, 4, 8, 12, 16, 32, 0x80, 0x100, 0x700, 0x1000, -1])


@pytest.fixture(scope="module")
def brokers() -> Iterator[TwinBrokers]:
    """Run three of them: compiled, fast in Python, and with every check."""
    with pytest.MonkeyPatch.context() as patch, TwinBrokers(patch, checked=True) as three:
        yield three


def outcome(done: dict[str, Any]) -> dict[str, Any]:
    """Return what a broker did, replies as what they say: their fields may be in another order."""
    reader = FrameReader()
    reader.feed(done["written"])
    replies = [(r.opaque, r.code, r.flag, r.remark, sorted(r.ext.items())) for r in reader]
    return {**done, "written": sorted(replies)}


def agree(brokers: TwinBrokers, frame: bytes) -> dict[str, Any]:
    """Give all of them a frame and see that they do the same; return what."""
    compiled, python, checked = map(outcome, brokers.exchange([frame]))
    assert python == checked
    assert compiled == checked
    return checked


@SETTINGS
@given(text=properties, flag=sys_flags, body=st.sampled_from([b"body", b"", b"x" * 3000]))
@example(text="UNIQ_KEY\x01A1\x02INNER_NUM\x015\x02", flag=0, body=b"body")
@example(text="UNIQ_KEY\x01A1\x02a\x01b\x02a\x01c\x02", flag=0, body=b"body")
@example(text="UNIQ_KEY\x01A1\x02a\x01\x02\x01b\x02c", flag=0, body=b"body")
@example(text="UNIQ_KEY\x01A1\x02CLUSTER\x01mine\x02TRACE_ON\x01false\x02", flag=0, body=b"body")
def test_single_sends_agree(brokers: TwinBrokers, text: str, flag: int, body: bytes) -> None:
    """Whatever stands among the properties, and whatever kind of message the flag says it is."""
    agree(brokers, encode_frame(send_command(body, properties=text, f=str(flag))))


@SETTINGS
@given(
    texts=st.lists(properties, min_size=1, max_size=3),
    common=st.one_of(st.just(""), properties),
    flag=sys_flags,
    body=st.sampled_from([b"body", b""]),
)
@example(texts=["UNIQ_KEY\x01A1"], common="", flag=0, body=b"body")
@example(texts=["UNIQ_KEY\x01A1\x02"], common="INNER_NUM\x015\x02", flag=0, body=b"body")
def test_batches_agree(
    brokers: TwinBrokers, texts: list[str], common: str, flag: int, body: bytes
) -> None:
    """The messages of a batch have properties of their own, beside those of the request."""
    messages = [BatchedMessage(number, body, text.encode()) for number, text in enumerate(texts)]
    command = send_command(
        encode_batch(messages),
        code=RequestCode.SEND_BATCH_MESSAGE,
        properties=common,
        m="true",
        f=str(flag),
    )
    agree(brokers, encode_frame(command))


def test_an_inner_batch_is_refused_as_rocketmq_refuses_it(brokers: TwinBrokers) -> None:
    """Topics of queue type BatchCQ are not served (HookUtils.checkInnerBatch): code 13."""
    for command in (
        send_command(properties="UNIQ_KEY\x01A1\x02INNER_NUM\x015\x02"),
        send_command(f=str(0x80)),
    ):
        done = agree(brokers, encode_frame(command))
        assert done["log"] == b""
        assert [reply[1] for reply in done["written"]] == [13]
