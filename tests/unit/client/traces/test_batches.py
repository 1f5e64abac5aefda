"""What goes into one trace message: RocketMQ's counts, ages and sizes."""

import pytest

from aerobee.client.traces.batches import (
    AGE_MAX_S,
    CHARS_MAX,
    KEYS_BYTES_MAX,
    WAITING_CHARS_MAX,
    WAITING_MAX,
    TraceItem,
    WaitingTraces,
    trace_messages,
)
from aerobee.client.traces.records import PubTrace, SubBeforeTrace, Trace, decode_traces


def item(number: int, topic: str = "t", region: str = "r", keys: str | None = None) -> TraceItem:
    """Return what a hook says of one message."""
    trace = SubBeforeTrace(
        timestamp_ms=number, region=region, group="g", request_id="R", message_id=f"id-{number}",
        retry_times=0, keys=keys,
    )  # fmt: skip
    return TraceItem(topic, region, (trace,))


@pytest.mark.parametrize(("given", "expected"), [(10, 10), (1, 1), (100, 20), (0, 1)])
def test_a_group_is_ready_when_it_is_full(given: int, expected: int) -> None:
    """Of each topic and region by itself; 20 at most, whatever the setting says."""
    waiting = WaitingTraces(given)
    assert waiting.due_s() is None
    for number in range(expected - 1):
        waiting.add(item(number), 100.0)
        waiting.add(item(number, "other"), 100.0)
        waiting.add(item(number, region="elsewhere"), 100.0)
    if expected > 1:
        assert waiting.take(100.0) == [] and waiting.due_s() == 100.0 + AGE_MAX_S
    waiting.add(item(expected), 101.0)
    assert waiting.due_s() == 0
    (group,) = waiting.take(101.0)
    assert len(group) == expected and {each.topic for each in group} == {"t"}
    assert len(waiting) == 2 * (expected - 1)


def test_an_old_group_is_ready() -> None:
    """Its first one counts; at the end everything is."""
    waiting = WaitingTraces(10)
    waiting.add(item(1), 10.0)
    waiting.add(item(2), 14.0)
    waiting.add(item(3, "other"), 14.0)
    assert waiting.take(14.9) == []
    assert [len(group) for group in waiting.take(15.0)] == [2]
    assert [len(group) for group in waiting.take(15.0, everything=True)] == [1]
    assert len(waiting) == 0 and waiting.due_s() is None


def test_what_there_is_no_room_for_is_dropped() -> None:
    """Ready ones count until they are taken."""
    waiting = WaitingTraces(10)
    taken = [waiting.add(item(number), 0.0) for number in range(WAITING_MAX + 5)]
    assert taken.count(False) == waiting.dropped == 5
    assert sum(map(len, waiting.take(0.0, everything=True))) == WAITING_MAX
    assert waiting.add(item(1), 0.0)


def test_a_message_is_found_by_ids_and_keys() -> None:
    """Each once, in the order of the traces."""
    (message,) = trace_messages([item(1, keys="a b"), item(2, keys="a b"), item(3)], "traces")
    assert message.topic == "traces" and message.keys == ["id-1", "a", "b", "id-2", "id-3"]
    assert [each.message_id for each in decode_traces(message.body)] == ["id-1", "id-2", "id-3"]


@pytest.mark.parametrize("keys_chars", [1, KEYS_BYTES_MAX // 3])
def test_no_message_is_too_large(keys_chars: int) -> None:
    """Bodies and keys stay below what one message may have; nothing is lost."""
    items = [item(number, keys="k" * keys_chars + str(number)) for number in range(20)]
    if keys_chars == 1:
        items = [item(number, region="r" * (CHARS_MAX // 4)) for number in range(20)]
    messages = list(trace_messages(items, "traces"))
    assert len(messages) > 5
    assert all(len(each.body) <= CHARS_MAX + 100 for each in messages)
    assert all(len(" ".join(each.keys)) <= KEYS_BYTES_MAX + 100 for each in messages)
    found = [each.message_id for message in messages for each in decode_traces(message.body)]
    assert found == [f"id-{number}" for number in range(20)]


def pub(*ids: str) -> PubTrace:
    """Return the trace of a batch that was sent."""
    return PubTrace(
        timestamp_ms=1, region="r", group="g", topic="t", message_id=",".join(ids), tags=None,
        keys=None, store_host="h:1", body_bytes=1, cost_ms=1, message_type=0,
        offset_message_id=None, succeeded=True,
    )  # fmt: skip


def before(number: int, keys: str) -> SubBeforeTrace:
    """Return the trace of a message that is handled."""
    (trace,) = item(number, keys=keys).traces
    assert isinstance(trace, SubBeforeTrace)
    return trace


@pytest.mark.parametrize(
    "traces",
    [
        tuple(before(number, f"key-{number}" * 4) for number in range(2_000)),
        tuple(before(number, "ü字" * 2_000) for number in range(8)),
        (pub(*(f"{number:032X}" for number in range(2_000))),),
        (before(1, "word " * 10_000), before(2, "w" * 40_000)),
        (before(1, "a\x01b\x02c \ud800"), before(2, "sound")),
    ],
    ids=["many", "not ascii", "batch", "long", "hostile"],
)
def test_whatever_is_traced_can_be_sent(traces: tuple[Trace, ...]) -> None:
    """Of one call, too, and whatever its messages have for keys; nobody else's trace is lost."""
    given = [TraceItem("t", "r", traces), item(7)]
    messages = list(trace_messages(given, "traces"))
    for message in messages:
        message.wire_properties("0" * 32)
        assert len(message.body) < 4 * CHARS_MAX
    found = [each.message_id for message in messages for each in decode_traces(message.body)]
    assert found == [each.message_id for each in traces] + ["id-7"]


def test_a_batch_is_found_by_each_of_its_ids() -> None:
    """And by all together, as RocketMQ's clients write it."""
    (message,) = trace_messages([TraceItem("t", "r", (pub("A1", "A2"),))], "traces")
    assert message.keys == ["A1,A2", "A1", "A2"]


def test_what_waits_is_bounded_in_memory() -> None:
    """By what it holds, not by its number alone; what is taken makes room."""
    waiting, large = WaitingTraces(10), "k" * (WAITING_CHARS_MAX // 4)
    assert [waiting.add(item(number, keys=large), 0.0) for number in range(4)] == [True] * 3 + [
        False
    ]
    many = TraceItem("t", "r", tuple(before(number, large) for number in range(2)))
    assert not waiting.add(many, 0.0) and waiting.dropped == 3
    assert len(waiting.take(0.0, everything=True)) == 1
    assert waiting.add(many, 0.0)
