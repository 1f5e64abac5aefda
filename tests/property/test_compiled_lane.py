"""Single sends: the compiled code writes and reads to the byte what the Python does."""

import re
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.stand_ins.lane_worlds import QUEUES, World, plain_ack

from aerobee.client.message import Message
from aerobee.client.sending import offers, rings

compiled = pytest.importorskip("aerobee.client.compiled.lane", reason="built without a C compiler")

OPAQUE: Final = re.compile(rb'"opaque":(\d+)')
REQUEST: Final = re.compile(rb'"e":"(\d+)".*?UNIQ_KEY\\u0001(\w+).*?"opaque":(\d+)', re.DOTALL)
WORDS: Final = st.sampled_from(
    [
        "",
        "a",
        "key-1",
        'quo"te',
        "back\\slash",
        "grün",
        "\x7f",
        "tab\t",
        "\x01",
        "x" * 9_000,
        "€",
        "~",
    ]
)
MESSAGES: Final = st.builds(
    Message,
    st.sampled_from(["t", "t", "t", "other"]),
    st.one_of(st.binary(max_size=40), st.just(b"z" * 5_000), st.just(bytearray(b"mutable"))),
    tags=st.one_of(st.none(), WORDS),
    keys=st.one_of(WORDS, st.just(()), st.just(("k1", "k2")), st.just(["k"])),
    delay_level=st.sampled_from([0, 0, 0, 3]),
    properties=st.one_of(
        st.just({}),
        st.dictionaries(
            st.one_of(WORDS, st.sampled_from(["KEYS", "TRAN_MSG", "n"])), WORDS, max_size=3
        ),
    ),
    flag=st.sampled_from([0, 0, 0, 9]),
)
HOW: Final = st.fixed_dictionaries(
    {},
    optional={
        "queue": st.sampled_from([*QUEUES, QUEUES[0]._replace(queue_id=99)]),
        "key": st.one_of(
            st.text(max_size=4), st.integers(-5, 2**70), st.booleans(), st.just("order-1" * 40)
        ),
        "timeout_ms": st.sampled_from([1, 500, 0, -3, 60_000]),
        "counted": st.booleans(),
    },
)
EXT: Final[st.SearchStrategy[dict[str, str]]] = st.one_of(
    st.just({}),
    st.just({"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}),
    st.dictionaries(
        st.sampled_from(
            [
                *("MSG_REGION", "TRACE_ON", "transactionId", "recallHandle", "batchUniqId"),
                *("msgId", "queueId", "queueOffset", "own", "more"),
            ]
        ),
        st.sampled_from(
            [
                *("false", "true", "", "x", "0", "7", "-1", "007", "1e3", "9" * 20, "DEF" * 6),
                *("7f00000100002a9f00000000000000ab", "ü", 'a"b', "F" * 400),
            ]
        ),
        max_size=3,
    ),
)
ACKS: Final = st.tuples(
    st.integers(0, 12), EXT, st.sampled_from([0, 0, 0, 0, 1, 10, 2, 215, -3]), st.integers(0, 5)
)
STEPS: Final = st.one_of(
    st.tuples(st.just("send"), MESSAGES, HOW),
    st.tuples(st.just("send"), MESSAGES, st.just({})),
    st.tuples(st.just("turn")),
    st.tuples(st.just("acks"), st.lists(ACKS, max_size=5), st.booleans()),
    st.tuples(st.just("bytes"), st.binary(max_size=30)),
    st.tuples(st.just("bent"), st.integers(0, 12), st.integers(0, 400), st.integers(0, 255)),
    st.tuples(st.just("cut"), st.integers(0, 12), st.integers(0, 400)),
    st.tuples(st.just("time"), st.sampled_from([0, 1, 600, 4_000])),
    st.tuples(st.just("expire")),
    st.tuples(st.just("lose")),
    st.tuples(st.just("open"), st.booleans()),
    st.tuples(st.just("wake"), st.integers(-1, 400)),
)


def worlds(limits: tuple[int, int] = (5, 300), held_bytes_max: int = 2_500) -> list[World]:
    """Return one of each."""
    python = type("Python", (), {**vars(rings), **vars(offers)})
    return [World(code, limits, held_bytes_max) for code in (compiled, python)]


def step(world: World, words: tuple[Any, ...]) -> None:
    """Do one of `STEPS`."""
    name, *rest = words
    requests = REQUEST.findall(world.written) or [(b"0", b"NOBODY", b"5")]

    def ack(at: int, ext: dict[str, str], code: int = 0, shift: int = 0) -> bytes:
        queue_id, message_id, opaque = requests[-1 - at % len(requests)]
        more = {name: value for name, value in ext.items() if name != "own"}
        if "own" in ext:
            more["transactionId"] = message_id.decode()
        frame = plain_ack(int(opaque), int(queue_id), 1_000 + shift, more)
        if code:
            frame = frame.replace(b'"code":0', b'"code":%d' % code, 1)
            size = len(frame) - 4
            frame = size.to_bytes(4, "big") + (size - 4).to_bytes(4, "big") + frame[8:]
        return frame

    if name == "send":
        world.send(rest[0], **rest[1])
    elif name == "acks":
        data = b"".join(ack(*each) for each in rest[0])
        world.read(data + (b"\0\0" if rest[1] else b""))
    elif name == "bytes":
        world.read(rest[0])
    elif name == "bent":
        bent = bytearray(ack(rest[0], {"MSG_REGION": "r"}))
        bent[rest[1] % len(bent)] = rest[2]
        world.read(bytes(bent))
    elif name == "cut":
        frame = ack(rest[0], {})
        world.read(frame[: rest[1] % len(frame)])
    elif name == "time":
        world.now_s += rest[0] / 1000
        world.now_ms += rest[0]
    elif name == "open":
        world.open = rest[0]
    elif name == "wake":
        world.sender.wake_bytes = rest[0]
    else:
        getattr(world, name)()


@given(st.lists(STEPS, max_size=30))
@settings(
    max_examples=examples(60), deadline=None,
    suppress_health_check=list(HealthCheck), print_blob=True,
)  # fmt: skip
def test_both_do_the_same(steps: list[tuple[Any, ...]]) -> None:
    """Whatever is sent and answered, late, refused, bent or lost: same bytes, same outcomes."""
    pair = worlds()
    for words in steps:
        for world in pair:
            step(world, words)
        ours, theirs = (world.state() for world in pair)
        assert ours == theirs
    for world in pair:
        world.lose()
        world.turn()
        assert all(handle.done for handle in world.handles)
        assert (world.sender.held, world.sender.held_bytes, world.ring.unanswered) == (0, 0, 0)
    assert pair[0].state() == pair[1].state()


def test_plain_messages_are_not_left_to_python() -> None:
    """What most programs send, and most brokers answer, is done by the compiled code."""
    world = worlds((64, 1 << 20), 1 << 20)[0]
    for at in range(40):
        world.send(
            Message("t", b"x" * 1024, tags="a", keys=f"k{at}", properties={"a": "b"}), key=at
        )
    world.turn()
    assert world.told.count("plain") == 40
    opaques = [int(found) for found in OPAQUE.findall(world.written)]
    region = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
    data = b"".join(
        plain_ack(opaque, handle.queue.queue_id, at, region | {"transactionId": handle.message_id})
        for at, (opaque, handle) in enumerate(zip(opaques, world.handles, strict=True))
    )
    assert world.ring.feed(data, 0) == len(data)
    result = world.handles[7].result()
    assert (result.queue_offset, result.region_id) == (7, "DefaultRegion")
    assert result.transaction_id == result.message_id


@pytest.mark.parametrize("world", worlds((2, 1 << 20), 1 << 20), ids=["compiled", "python"])
def test_a_late_reply_hits_nobody(world: World) -> None:
    """A number comes again only after a billion sends, and a slot is not shared."""
    world.send(Message("t", b"first"))
    world.turn()
    late = int(OPAQUE.findall(world.written)[0])
    world.now_s += 10
    world.expire()
    assert world.handles[0].error is not None
    for _ in range(4_096):  # all the slots
        world.send(Message("t", b"next"))
        world.turn()
        opaque = int(OPAQUE.findall(world.written[-1_000:])[-1])
        if opaque % 4_096 == late % 4_096:
            break
        world.read(plain_ack(opaque, world.handles[-1].queue.queue_id, 1, {}))
    world.read(plain_ack(late, world.handles[-1].queue.queue_id, 9, {}))
    assert not world.handles[-1].done
    assert world.told[-1] == f"late {late}"


@pytest.mark.parametrize("world", worlds((2, 1 << 20), 1 << 20), ids=["compiled", "python"])
def test_time_goes_on_within_a_turn(world: World) -> None:
    """A message has all of its time, and is as old as it is, however long others took."""
    for number in range(4):  # two of them wait for room
        world.send(Message("t", b"x"))
        assert world.handles[-1].deadline_s == world.now_s + 3
        assert (b'"g":"%d"' % world.now_ms in world.written + world.ring.take()) == (number < 2)
        world.now_s += 2.5
        world.now_ms += 2_500


def test_a_reply_for_another_queue_or_message_is_looked_at_in_full() -> None:
    """It names the queue that it went to; an id that is not the message's is kept as it came."""
    for world in worlds((9, 1 << 20), 1 << 20):
        world.send(Message("t", b"x"), queue=QUEUES[0])
        world.send(Message("t", b"x"), queue=QUEUES[0])
        world.turn()
        first, second = (int(found) for found in OPAQUE.findall(world.written))
        world.read(plain_ack(first, 3, 5, {}) + plain_ack(second, 0, 6, {"transactionId": "OTHER"}))
        one, two = (handle.result() for handle in world.handles)
        assert one.queue.queue_id == 3
        assert two.transaction_id == "OTHER"
