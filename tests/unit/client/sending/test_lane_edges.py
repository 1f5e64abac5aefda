"""Single sends where one byte, one message or one moment more is another case, in both codes."""

import re
from typing import Any, Final

import pytest
from support.stand_ins.lane_worlds import QUEUES, World, plain_ack

from aerobee.client.cluster.routes import TopicRoute
from aerobee.client.message import Message
from aerobee.client.sending import offers, rings
from aerobee.client.sending.selectors import by_key
from aerobee.remoting.command import FLAG_RESPONSE, Command
from aerobee.remoting.frame import encode_frame

lane = pytest.importorskip("aerobee.client.compiled.lane", reason="built without a C compiler")

OPAQUE: Final = re.compile(rb'"opaque":(\d+)')
PYTHON: Final = type("Python", (), {**vars(rings), **vars(offers)})
HELD_BYTES: Final = 128  # of a message that waits, beside its body


@pytest.fixture(params=[lane, PYTHON], ids=["compiled", "python"])
def code(request: pytest.FixtureRequest) -> Any:
    """Return the classes of an implementation."""
    return request.param


def world_of(
    code: Any, waiting: int = 9, waiting_bytes: int = 1 << 20, held: int = 1 << 20
) -> World:
    """Return a ring and a sender with these limits."""
    return World(code, (waiting, waiting_bytes), held)


def opaques(world: World) -> list[int]:
    """Return the numbers of the requests that were written."""
    return [int(found) for found in OPAQUE.findall(world.written)]


def ack(opaque: int, queue_id: int, begin: str = "7F0000010000AD3F", **ext: str) -> bytes:
    """Return an acknowledgement by a broker whose ids begin so."""
    return plain_ack(opaque, queue_id, 5, {"msgId": f"{begin}{5:016X}", **ext})


def stored(world: World, *given: dict[str, str]) -> list[Any]:
    """Send as many messages, have them acknowledged with these fields, return the results."""
    for _ in given:
        world.send(Message("t", b"x"))
    world.turn()
    answered = zip(opaques(world), world.handles, given, strict=True)
    data = b"".join(ack(opaque, each.queue.queue_id, **ext) for opaque, each, ext in answered)
    assert world.ring.feed(data, 0) == len(data), "they are plain"
    return [handle.result() for handle in world.handles]


def test_each_reply_has_its_own_id_and_region(code: Any) -> None:
    """Though those of the reply before are as long, or are not said again."""
    first, other, silent, again = stored(
        world_of(code),
        {"begin": "7F0000010000AD3F", "MSG_REGION": "one", "TRACE_ON": "false"},
        {"begin": "0A0000010000AD3F", "MSG_REGION": "two"},
        {"begin": "0A0000010000AD3E"},
        {"begin": "7F0000010000AD3F", "MSG_REGION": "one"},
    )
    tail = f"{5:016X}"
    assert first.offset_message_id == "7F0000010000AD3F" + tail
    assert other.offset_message_id == "0A0000010000AD3F" + tail
    assert silent.offset_message_id == "0A0000010000AD3E" + tail
    assert again.offset_message_id == first.offset_message_id
    regions = [each.region_id for each in (first, other, silent, again)]
    assert regions == ["one", "two", None, "one"]
    assert [each.trace_on for each in (first, other, silent, again)] == [False, True, True, True]


@pytest.mark.parametrize("whole", [False, True], ids=["written here", "made in Python"])
@pytest.mark.parametrize("change", ["", "longer", "shorter", "last", "first", "middle"])
def test_a_transaction_id_is_the_messages_own_or_is_kept(
    code: Any, change: str, whole: bool
) -> None:
    """Not one that is longer, shorter or has another digit."""
    world = world_of(code)
    world.send(Message("t", b"x", delay_level=3 if whole else 0))
    world.turn()
    (handle,) = world.handles
    own = handle.message_id
    said = {
        "": own, "longer": own + "0", "shorter": own[:-1], "last": own[:-1] + "Z",
        "first": "Z" + own[1:], "middle": own[:20] + "Z" + own[21:],
    }[change]  # fmt: skip
    (opaque,) = opaques(world)
    data = ack(opaque, handle.queue.queue_id, transactionId=said)
    assert world.ring.feed(data, 0) == (0 if change else len(data))
    if change:
        world.read(data)
    assert handle.result().transaction_id == said
    assert handle.result().message_id == own


def test_an_id_that_is_no_ascii_is_compared_by_python(code: Any) -> None:
    """It is as long as that of the reply."""
    world = world_of(code)
    outgoing = world.packer.pack(Message("t", b"x"), "\u00fc" * 32)
    outgoing.born_ms, outgoing.body = world.now_ms, b"x"
    handle = world.sender.offer(world.heads[0], world.ring, outgoing, None, 2, 1.0)
    world.turn()
    (opaque,) = opaques(world)
    for said in ("\u00fc" * 32, "ab" * 32, "\xfc" + "a" * 31):
        text = ack(opaque, handle.queue.queue_id, transactionId=said)
        if said != "\u00fc" * 32:
            assert world.ring.feed(text, 0) == 0
    assert not handle.done


@pytest.mark.parametrize(("padding", "plain"), [(0, True), (1, False)])
def test_the_longest_header_that_is_read_here(code: Any, padding: int, plain: bool) -> None:
    """One of a byte more is left to the checked path, whatever it says."""
    world = world_of(code)
    world.send(Message("t", b"x"))
    world.turn()
    (opaque,), (handle,) = opaques(world), world.handles
    data = ack(opaque, handle.queue.queue_id)
    room = 4_096 - (len(data) - 8) + padding
    assert b'"language":"' in data
    header = data[8:].replace(b'"language":"', b'"language":"' + b"x" * room)
    data = (len(header) + 4).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    assert world.ring.feed(data, 0) == (len(data) if plain else 0)


def test_a_reply_with_a_body_is_not_plain(code: Any) -> None:
    """Nor is one of another code or kind, or one for a number that nobody waits for."""
    world = world_of(code)
    world.send(Message("t", b"x"))
    world.turn()
    (opaque,), (handle,) = opaques(world), world.handles
    fields = {
        "msgId": "7F0000010000AD3F" + "0" * 16, "queueId": str(handle.queue.queue_id),
        "queueOffset": "5",
    }  # fmt: skip
    for code_, body, number, flag in (
        (0, b"body", opaque, FLAG_RESPONSE), (10, b"", opaque, FLAG_RESPONSE),
        (0, b"", opaque, 3), (0, b"", opaque, 0), (0, b"", opaque + 4_096, FLAG_RESPONSE),
        (0, b"", opaque - 0x4000_0000, FLAG_RESPONSE), (0, b"", 0x8000_0000, FLAG_RESPONSE),
    ):  # fmt: skip
        assert world.ring.feed(encode_frame(Command(code_, fields, body, number, flag)), 0) == 0
    assert not handle.done
    data = encode_frame(Command(0, fields, b"", opaque, FLAG_RESPONSE))
    assert world.ring.feed(data, 0) == len(data)
    assert world.ring.feed(data, 0) == 0, "it is answered"


@pytest.mark.parametrize("name", ["msgId", "queueId", "queueOffset"])
def test_a_reply_that_lacks_a_field_is_not_plain(code: Any, name: str) -> None:
    """Nor is one with a number that is none."""
    world = world_of(code)
    world.send(Message("t", b"x"), queue=QUEUES[0])
    world.turn()
    (opaque,) = opaques(world)
    fields = {"msgId": "7F0000010000AD3F" + "0" * 16, "queueId": "0", "queueOffset": "5"}
    cut = {other: fields[other] for other in fields if other != name}
    for said in (cut, {**fields, name: "x"}, {**fields, name: ""}):
        if name != "msgId" or said is cut:
            data = encode_frame(Command(0, said, b"", opaque, FLAG_RESPONSE))
            assert world.ring.feed(data, 0) == 0, said
    assert not world.handles[0].done
    largest = "9" * 18
    data = encode_frame(Command(0, {**fields, "queueOffset": largest}, b"", opaque, FLAG_RESPONSE))
    assert world.ring.feed(data, 0) == len(data)
    assert world.handles[0].result().queue_offset == int(largest)


def test_room_ends_with_the_last_byte_and_the_last_message(code: Any) -> None:
    """What has no room waits, and goes out as soon as there is some."""
    for limits, sent in (((3, 1 << 20), 3), ((9, 30), 3), ((9, 31), 4)):
        world = world_of(code, *limits)
        for _ in range(6):
            world.send(Message("t", b"0123456789"), queue=QUEUES[0])
        world.turn()
        assert [handle.sent for handle in world.handles] == [True] * sent + [False] * (6 - sent)
        assert (world.ring.unanswered, world.ring.unanswered_bytes) == (sent, 10 * sent)
        assert world.ring.waiting_count == 6 - sent
        world.read(ack(opaques(world)[0], 0))
        assert sum(handle.sent for handle in world.handles) == sent
        assert world.ring.unanswered_bytes == 10 * sent


def test_time_is_up_at_its_last_moment(code: Any) -> None:
    """Of those that are under way and of those that wait; the earliest of the rest is known."""
    world = world_of(code, 1)
    for timeout_ms in (1_000, 2_000, 3_000):
        world.send(Message("t", b"x"), timeout_ms=timeout_ms)
    world.turn()
    assert world.ring.earliest_s == 101.0
    world.now_s = 100.999
    world.expire()
    assert [handle.done for handle in world.handles] == [False] * 3
    world.now_s = 101.0
    world.expire()
    assert [handle.done for handle in world.handles] == [True, False, False]
    assert world.ring.earliest_s == 102.0
    world.now_s = 102.0
    world.expire()
    assert [handle.done for handle in world.handles] == [True, True, False]
    assert world.ring.earliest_s == 103.0


def test_the_clock_of_the_day_is_looked_at_each_millisecond(code: Any) -> None:
    """What was born then says so, and its id begins with that."""
    world = world_of(code)
    world.send(Message("t", b"x"))
    world.now_ms += 7
    world.now_s += 0.0009
    world.send(Message("t", b"x"))
    world.now_s += 0.002
    world.send(Message("t", b"x"))
    world.turn()
    born = re.findall(rb'"g":"(\d+)"', world.written)
    assert born == [b"1700000000000", b"1700000000000", b"1700000000007"]
    ids = [handle.message_id for handle in world.handles]
    assert [each[:28] for each in ids] == [f"{int(each):028X}" for each in born]
    assert [each[28:] for each in ids] == ["0000", "0001", "0002"]


def test_ids_begin_anew_in_the_child_of_a_fork(code: Any) -> None:
    """In the same millisecond, too."""
    world = world_of(code)
    world.send(Message("t", b"x"))
    begins = iter(("A" * 32, "B" * 32))
    world.ids.at = lambda now_ms: next(begins)  # type: ignore[method-assign]
    world.send(Message("t", b"x"))
    assert world.handles[1].message_id.startswith("0")
    world.sender.forget_id()
    world.send(Message("t", b"x"))
    assert world.handles[2].message_id == "A" * 28 + "0002"


@pytest.mark.parametrize(
    ("message", "how", "told"),
    [
        (Message("t", b"x" * 4_000), {}, "plain"),
        (Message("t", b"x" * 4_001), {}, "declined"),
        (Message("t", b"x", tags="a b"), {}, "declined"),
        (Message("t", b"x", tags="a|b"), {}, "declined"),
        (Message("t", b"x", tags="t" * 7_500), {}, "plain"),
        (Message("t", b"x", tags="t" * 7_501), {}, "declined"),
        (Message("t", b"x", keys="k" * 7_500), {}, "plain"),
        (Message("t", b"x", keys="k" * 7_501), {}, "declined"),
        (Message("t", b"x", properties={"n": "v" * 14_987}), {}, "plain"),
        (Message("t", b"x", properties={"n": "v" * 14_988}), {}, "declined"),
        (Message("t", b"x", properties={"TRAN_MSG": "true"}), {}, "declined"),
        (Message("t", b"x"), {"timeout_ms": 1}, "plain"),
        (Message("t", b"x"), {"timeout_ms": 0}, "declined"),
        (Message("t", b"x"), {"timeout_ms": True}, "declined"),
        (Message("t", b"x"), {"key": ""}, "plain"),
        (Message("t", b"x"), {"key": "grün"}, "declined"),
    ],
)
def test_what_is_plain(code: Any, message: Message, how: dict[str, Any], told: str) -> None:
    """To the last byte: whatever is longer or odd is left to the checks."""
    world = world_of(code)
    handle = world.sender.begin(message, None, how.get("key"), None, how.get("timeout_ms"), True)
    assert ("plain" if handle is not None else "declined") == told
    assert world.sender.held == (told == "plain")


@pytest.mark.parametrize(
    "key",
    [
        *(f"key-{at}" for at in range(9)),
        -7,
        7,
        0,
        2**70,
        -(2**70),
        "",
        "a",
        "order-1",
        "polygenelubricants",
    ],
)
def test_a_key_has_its_queue(code: Any, key: Any) -> None:
    """As the selector finds it, whose hash may be the least number that there is."""
    world = world_of(code)
    world.send(Message("t", b"x"), key=key)
    assert world.handles[0].queue == by_key(key)(list(QUEUES), Message("t", b"x"))
    assert world.handles[0].chosen


def test_queues_take_turns_but_for_a_choice(code: Any) -> None:
    """A message that has its queue takes nobody's turn."""
    world = world_of(code, 100)
    for at in range(9):
        world.send(Message("t", b"x"), queue=QUEUES[0] if at % 3 == 2 else None)
    turns = [each.queue for at, each in enumerate(world.handles) if at % 3 != 2]
    assert turns == [QUEUES[(at + 1) % 3] for at in range(6)]


def test_a_route_or_connection_that_is_no_more_is_asked_for(code: Any) -> None:
    """The next message goes by what is known then."""
    world = world_of(code)
    message, queue = Message("t", b"x"), QUEUES[0]
    world.send(message, queue=queue)
    world.open = False
    assert world.sender.begin(message, queue, None, None, None, True) is not None, "of this turn"
    world.turn()
    assert world.sender.begin(message, queue, None, None, None, True) is None
    world.open = True
    world.send(message, queue=queue)
    world.open = False
    world.ring.close()
    assert world.sender.begin(message, queue, None, None, None, True) is None
    world.open = True
    world.routes["t"] = TopicRoute("t", QUEUES, QUEUES, {})
    assert world.sender.begin(Message("t", b"x"), None, None, None, None, True) is None


def test_memory_of_what_is_held_has_a_bound(code: Any) -> None:
    """Who waits for room is told at the byte that was waited for."""
    world = world_of(code, held=2 * (HELD_BYTES + 10))
    begin = world.sender.begin
    for _ in range(2):
        assert begin(Message("t", b"0123456789"), None, None, None, None, True) is not None
    assert world.sender.held_bytes == 2 * (HELD_BYTES + 10)
    assert begin(Message("t", b"x"), None, None, None, None, True) is None
    uncounted = begin(Message("t", b"x"), None, None, None, None, False)
    assert uncounted is not None and world.sender.held == 2
    world.turn()
    world.sender.wake_bytes = HELD_BYTES + 9
    frames = [ack(number, at) for number, at in zip(opaques(world), (1, 7, 0), strict=True)]
    world.read(frames[0])
    assert not [each for each in world.told if each.startswith("less")]
    world.sender.wake_bytes = 0
    world.read(frames[1])
    assert [each for each in world.told if each.startswith("less")] == ["less 0"]
    assert world.sender.held == 0


def test_what_waits_elsewhere_is_held_too(code: Any) -> None:
    """Until it is settled, and as much as on its way here."""
    world = world_of(code)
    handle = world.sender.hold(world.heads[0], "more", 10, 0, 101.0)
    assert (world.sender.held, world.sender.held_bytes) == (1, HELD_BYTES + 10)
    assert handle.counted and not handle.done and not handle.sent
    outgoing = world.packer.pack(Message("t", b"0123456789"), "I" * 32)
    outgoing.born_ms, outgoing.body = world.now_ms, b"0123456789"
    assert world.sender.offer(world.heads[0], world.ring, outgoing, handle, 2, 1.0) is handle
    assert (world.sender.held, world.sender.held_bytes) == (1, HELD_BYTES + 10)
    again = world.sender.offer(world.heads[0], world.ring, outgoing, None, 2, 1.0)
    assert (world.sender.held, world.sender.held_bytes) == (2, 2 * (HELD_BYTES + 10))
    error = RuntimeError("no")
    for each in (handle, again):
        each._settle(error)
        each._settle(ValueError("too late"))
        assert each.error is error
    assert (world.sender.held, world.sender.held_bytes) == (0, 0)
    assert world.told.count("unheard no") == 2


def test_a_large_frame_is_written_among_small_ones(code: Any) -> None:
    """Memory for them grows by as much as is wanted, and is taken as soon as it is much."""
    world = world_of(code, 100)
    bodies = [b"a" * size for size in (1, 4_000, 3_999, 2, 4_000)]
    for body in bodies:
        world.send(Message("t", body, keys="k" * 7_000, properties={"n": "v" * 14_000}))
    assert 65_536 <= len(world.written) < 90_000, "three of them are as much as a turn writes"
    world.turn()
    at, found = 0, []
    while at < len(world.written):
        length = int.from_bytes(world.written[at : at + 4], "big")
        size = int.from_bytes(world.written[at + 4 : at + 8], "big")
        found.append(world.written[at + 8 + size : at + 4 + length])
        at += 4 + length
    assert found == bodies
