"""Trace records byte by byte as RocketMQ's clients write and read them."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerobee.client.traces import records
from aerobee.client.traces.records import (
    BadTrace,
    EndTransactionTrace,
    PubTrace,
    RecallTrace,
    SubAfterTrace,
    SubBeforeTrace,
    Trace,
    decode_trace,
    decode_traces,
    encode_trace,
)

ID = "0A00000100002A9F0000000000000001"
PUB = PubTrace(
    timestamp_ms=1_700_000_000_000, region="DefaultRegion", group="g", topic="orders",
    message_id=ID, tags="A", keys="k1", store_host="10.0.0.1:10911", body_bytes=5, cost_ms=3,
    message_type=records.NORMAL, offset_message_id="0A00000100002A9F0000000000000000",
    succeeded=True,
)  # fmt: skip
BEFORE = SubBeforeTrace(
    timestamp_ms=1_700_000_000_001, region="DefaultRegion", group="c", request_id="R",
    message_id=ID, retry_times=2, keys=None,
)  # fmt: skip
AFTER = SubAfterTrace(
    request_id="R", message_id=ID, cost_ms=7, succeeded=False, keys="k1",
    outcome=records.EXCEPTION, timestamp_ms=1_700_000_000_002, group="c",
)  # fmt: skip
CLOUD_AFTER = SubAfterTrace(
    request_id="R", message_id=ID, cost_ms=7, succeeded=True, keys="k1", outcome=records.SUCCESS
)
END = EndTransactionTrace(
    timestamp_ms=1_700_000_000_003, region="DefaultRegion", group="g", topic="orders",
    message_id=ID, tags=None, keys="k1 k2", store_host="10.0.0.1:10911",
    message_type=records.TRANS_COMMIT, transaction_id=ID, state="COMMIT_MESSAGE", from_check=True,
)  # fmt: skip
RECALL = RecallTrace(
    timestamp_ms=1_700_000_000_004, region="DefaultRegion", group="g", topic="orders",
    message_id=ID, succeeded=True,
)  # fmt: skip
GOLDEN: list[tuple[Trace, str]] = [
    (PUB, (
        f"Pub|1700000000000|DefaultRegion|g|orders|{ID}|A|k1|10.0.0.1:10911|5|3|0|"
        "0A00000100002A9F0000000000000000|true;"
    )),
    (BEFORE, f"SubBefore|1700000000001|DefaultRegion|c|R|{ID}|2|null;"),
    (AFTER, f"SubAfter|R|{ID}|7|false|k1|2|1700000000002|c;"),
    (CLOUD_AFTER, f"SubAfter|R|{ID}|7|true|k1|0|;"),
    (END, (
        f"EndTransaction|1700000000003|DefaultRegion|g|orders|{ID}|null|k1 k2|10.0.0.1:10911|"
        f"2|{ID}|COMMIT_MESSAGE|true;"
    )),
    (RECALL, f"Recall|1700000000004|DefaultRegion|g|orders|{ID}|true;"),
]  # fmt: skip


def wire(text: str) -> str:
    """Put the separators where the golden values have what can be read."""
    return text.replace("|", "\x01").replace(";", "\x02")


@pytest.mark.parametrize(("trace", "text"), GOLDEN)
def test_each_kind_is_written_and_read_as_rocketmq_does(trace: Trace, text: str) -> None:
    """The bytes are those of TraceDataEncoder."""
    assert encode_trace(trace) == wire(text)
    assert decode_traces(wire(text).encode()) == [trace]


def test_old_and_newer_forms_are_read() -> None:
    """A Pub without offset id, one with its client's host; a SubAfter without code or group."""
    head = f"Pub|1|r|g|t|{ID}|null||h:1|5|3|4|"
    old = decode_trace(wire(head + "true"))
    assert isinstance(old, PubTrace) and old.succeeded
    assert (old.offset_message_id, old.tags, old.keys, old.message_type) == (None, None, None, 4)
    new = decode_trace(wire(head + "X|false|10.0.0.9@1|more"))
    assert isinstance(new, PubTrace)
    assert (new.offset_message_id, new.succeeded, new.client_host) == ("X", False, "10.0.0.9@1")
    short = decode_trace(wire(f"SubAfter|R|{ID}|7|true|k"))
    timed = decode_trace(wire(f"SubAfter|R|{ID}|7|true|k|4|99"))
    assert isinstance(short, SubAfterTrace) and short.outcome == records.SUCCESS
    assert isinstance(timed, SubAfterTrace) and (timed.outcome, timed.timestamp_ms) == (4, 99)


def test_what_is_no_trace_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """The others of the message are read; each one that is not is told."""
    body = wire(f"Pub|x;Later|1|2;SubBefore|1;{GOLDEN[5][1]}").encode() + b"\xff\xfe"
    with caplog.at_level(logging.WARNING):
        assert decode_traces(body) == [RECALL]
    assert len(caplog.records) == 4
    for text in ("", "Pub", "SubAfter\x01a", "EndTransaction\x011"):
        with pytest.raises(BadTrace):
            decode_trace(text)


WORDS = st.text(st.sampled_from("aZ0 ü字-_:|;%é"), min_size=1, max_size=12)
NUMBERS = st.integers(0, 2**62)


@given(
    st.lists(
        st.builds(
            PubTrace, timestamp_ms=NUMBERS, region=WORDS, group=WORDS, topic=WORDS,
            message_id=WORDS, tags=st.none() | WORDS, keys=st.none() | WORDS, store_host=WORDS,
            body_bytes=NUMBERS, cost_ms=NUMBERS, message_type=st.integers(0, 4),
            offset_message_id=st.none() | WORDS, succeeded=st.booleans(),
        )
        | st.builds(
            SubBeforeTrace, timestamp_ms=NUMBERS, region=st.none() | WORDS, group=WORDS,
            request_id=WORDS, message_id=WORDS, retry_times=NUMBERS, keys=st.none() | WORDS,
        )
        | st.builds(
            SubAfterTrace, request_id=WORDS, message_id=WORDS, cost_ms=NUMBERS,
            succeeded=st.booleans(), keys=st.none() | WORDS, outcome=st.integers(0, 4),
            timestamp_ms=NUMBERS, group=WORDS,
        ),
        max_size=5,
    )
)  # fmt: skip
def test_what_is_written_is_read(traces: list[Trace]) -> None:
    """Any number of records in one body come back, in their order."""
    assert decode_traces("".join(map(encode_trace, traces)).encode()) == traces


def test_a_separator_in_a_field_breaks_no_record() -> None:
    """Keys of foreign messages may hold one."""
    before = SubBeforeTrace(
        timestamp_ms=1, region="r", group="g", request_id="R", message_id=ID, retry_times=0,
        keys="a\x01b\x02c",
    )  # fmt: skip
    (read,) = decode_traces(encode_trace(before).encode())
    assert isinstance(read, SubBeforeTrace) and read.keys == "a b c"


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_error(body: bytes) -> None:
    """A trace topic is anybody's to write."""
    decode_traces(body)
    decode_traces(b"Pub\x01" + body)
    decode_traces(b"SubAfter\x01" + body.replace(b"\x00", b"\x01"))
