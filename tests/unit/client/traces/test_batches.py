"""What goes into one trace message: RocketMQ's counts, ages and sizes."""

import pytest

from aerobee.client.traces.batches import (
    AGE_MAX_S,
    CHARS_MAX,
    KEYS_CHARS_MAX,
    WAITING_MAX,
    TraceItem,
    WaitingTraces,
    trace_messages,
)
from aerobee.client.traces.records import SubBeforeTrace, decode_traces


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
    assert message.topic == "traces" and message.keys == ["id-1", "a b", "id-2", "id-3"]
    assert [each.message_id for each in decode_traces(message.body)] == ["id-1", "id-2", "id-3"]


@pytest.mark.parametrize("keys_chars", [1, KEYS_CHARS_MAX // 3])
def test_no_message_is_too_large(keys_chars: int) -> None:
    """Bodies and keys stay below what one message may have; nothing is lost."""
    items = [item(number, keys="k" * keys_chars + str(number)) for number in range(20)]
    if keys_chars == 1:
        items = [item(number, region="r" * (CHARS_MAX // 4)) for number in range(20)]
    messages = list(trace_messages(items, "traces"))
    assert len(messages) > 5
    assert all(len(each.body) <= CHARS_MAX + 100 for each in messages)
    assert all(len(" ".join(each.keys)) <= KEYS_CHARS_MAX + 100 for each in messages)
    found = [each.message_id for message in messages for each in decode_traces(message.body)]
    assert found == [f"id-{number}" for number in range(20)]
