"""Compiled batches against the Python that defines them: same log, same queues, same replies."""

import os
import random
import struct
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.golden.frames import load_frame
from support.runs.source_tree import ROOT
from support.send_frames import compact, frame, header
from support.servers.brokers import pull_command, send_command
from support.servers.twin_brokers import TwinBrokers

from aerobee.broker.compiled.choice import is_compiled
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.frame import encode_frame

pytestmark = pytest.mark.skipif(not is_compiled(), reason="built without a C compiler")

MUTATIONS: Final = int(os.environ.get("COMPILED_SENDS_MUTATIONS", examples(800)))
BATCH: Final = RequestCode.SEND_BATCH_MESSAGE
USUAL: Final = send_command(properties="WAIT\x01true\x02", m="true").ext
PROPERTIES: Final = b"KEYS\x01k\x02UNIQ_KEY\x01AB01\x02TAGS\x01TagA\x02"


@pytest.fixture(scope="module")
def twins() -> Iterator[TwinBrokers]:
    """Run a pair whose log rolls and whose queues are extended often."""
    with pytest.MonkeyPatch.context() as monkeypatch, TwinBrokers(monkeypatch) as pair:
        yield pair


def message(
    body: bytes = b"body",
    properties: bytes = PROPERTIES,
    flag: int = 0,
    lies: tuple[int, int, int] = (0, 0, 0),
) -> bytes:
    """Return one message of a batch; `lies` are what its three lengths are wrong by."""
    total, body_bytes = 22 + len(body) + len(properties) + lies[0], len(body) + lies[1]
    return (
        struct.pack(">iIIii", total, 0, 0, flag, body_bytes)
        + body
        + struct.pack(">H", (len(properties) + lies[2]) & 0xFFFF)
        + properties
    )


def batch(*messages: bytes, fields: dict[str, Any] | None = None, **outer: Any) -> bytes:
    """Return a frame with these messages."""
    text = compact(header({**USUAL, **(fields or {})}, **{"code": int(BATCH), **outer}))
    return frame(text, b"".join(messages))


def served(twins: TwinBrokers, data: bytes, peer: str = "127.0.0.1") -> int:
    """Return how many frames of one read the compiled code serves, the most of four times.

    It declines where the log needs room, or a queue its next file.
    """
    counts = []
    for _ in range(4):
        before = twins.compiled_frames
        compiled, python = twins.exchange([data], peer)
        assert compiled == python
        counts.append(twins.compiled_frames - before)
    return max(counts)


words = st.sampled_from(
    [b"UNIQ_KEY", b"TAGS", b"KEYS", b"XTAGS", b"DELAY", b"DEL", b"TRAN_MSG", b"TRAN", b"POP_CK",
     b"INNER_NUM", b"L", b"_", b"", b"\xc3\xa9", b"\xff"]
)  # fmt: skip
values = st.one_of(
    st.sampled_from(
        [b"TagA", b"", b"0", b'q"uote', b"back\\slash", b"\xe4\xb8\xad", b"\xed\xa0\x80", b"\x00",
         b"\x7f", b"x" * 300, b"TAGS\x01b", b"y" * 32_700]
    ),
    st.binary(max_size=8),
)  # fmt: skip
properties = st.one_of(
    st.just(PROPERTIES),
    st.just(PROPERTIES.removesuffix(b"\x02")),
    st.lists(st.tuples(words, values), max_size=4).map(
        lambda pairs: b"".join(name + b"\x01" + value + b"\x02" for name, value in pairs)
    ),
    st.binary(max_size=30),
    st.sampled_from([b"", b"A\x01" + b"v" * 32_764, b"A\x01" + b"v" * 32_765]),
)
messages = st.builds(
    message,
    st.one_of(st.binary(max_size=60), st.sampled_from([b"", b"z" * 1024])),
    properties,
    st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)]),
)
broken = st.one_of(
    st.builds(
        message,
        lies=st.tuples(
            st.sampled_from([0, -1, 1, 100, -200]),
            st.sampled_from([0, 1, -1, 5, -100, 2**31 - 200]),
            st.sampled_from([0, 1, -1, 40, -100]),
        ),
    ),
    st.binary(min_size=1, max_size=40),
    st.just(message() + b"\x00" * 21),
)
fields = st.sampled_from(
    [{}] * 6
    + [{"m": "false"}, {"m": "TRUE"}, {"j": "1"}, {"f": "4"}, {"f": "1792"}, {"f": "16"},
       {"e": "3"}, {"e": "4"}, {"e": "-1"}, {"b": "golden"}, {"b": "unknown"}, {"h": "9"},
       {"i": "INNER_NUM\x012\x02"}, {"i": "XINNER_NUM\x012"}, {"i": "\u00e9\x01\x02"},
       {"i": 'a"\\b/\n'}, {"i": ""}, {"g": "-5"}, {"d": "x"}]
)  # fmt: skip
outers: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}] * 6 + [{"code": 310}, {"flag": 2}, {"flag": 1}, {"opaque": -7}, {"opaque": 2**63}]
)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """Draw a batch, half of them with something unusual about it."""
    found = draw(st.lists(messages, max_size=6))
    if not draw(st.integers(0, 3)):
        found.insert(draw(st.integers(0, len(found))), draw(broken))
    return batch(*found, fields=draw(fields), **draw(outers))


others = st.one_of(
    st.builds(pull_command, st.integers(0, 3)).map(encode_frame),
    st.builds(send_command, st.binary(min_size=1, max_size=50)).map(encode_frame),
)


@settings(
    max_examples=examples(300),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
@given(
    frames=st.lists(st.one_of(batches(), batches(), others), min_size=1, max_size=8),
    cut=st.integers(0, 2000),
    peer=st.sampled_from(["127.0.0.1", "127.0.0.1", "2001:db8::7"]),
)
def test_compiled_and_python_do_the_same(
    twins: TwinBrokers, frames: list[bytes], cut: int, peer: str
) -> None:
    """For any stream with batches, usual, unusual and broken, however it is split."""
    data = b"".join(frames)
    compiled, python = twins.exchange([data[:cut], data[cut:]], peer)
    assert compiled == python


@pytest.mark.parametrize("client", ["java-5.5.0", "java-4.9.8", "go-2.1.2"])
def test_what_clients_send_is_not_declined(twins: TwinBrokers, client: str) -> None:
    """A recorded batch is served by the compiled code, several of them in one run."""
    recorded = ROOT / f"tests/golden/frames/{client}-produces/SEND_BATCH_MESSAGE-request.hex"
    assert served(twins, load_frame(recorded).frame * 5) == 5


def test_a_queue_without_room_in_memory_gets_it_in_the_run(twins: TwinBrokers) -> None:
    """It is full again and again; Python serves what rolls the log, or crosses a queue's file."""
    frames, before = 0, twins.compiled_frames
    for _ in range(60):
        compiled, python = twins.exchange([batch(*[message()] * 7) * 3])
        assert compiled == python
        frames += 3
    assert twins.compiled_frames - before > frames - 4


def test_batches_and_messages_are_served_in_one_run(twins: TwinBrokers) -> None:
    """Offsets follow each other whatever brings them."""
    single = encode_frame(send_command())
    assert served(twins, batch(message()) + single + batch(*[message()] * 40) + single) == 4


@pytest.mark.parametrize(
    "tail",
    [b"", b"A\x01b", b"A\x01b\x02", b'q"\x01\\\x02', "n\u00e4me\x01v\u4e2d\x02".encode()],
)
def test_properties_of_any_text_are_not_declined(twins: TwinBrokers, tail: bytes) -> None:
    """What is in the properties of a message need not be escaped."""
    assert served(twins, batch(message(), message(properties=tail))) == 1


@pytest.mark.parametrize(
    "bad",
    [
        message(properties=b"DELAY\x013\x02"),
        message(properties=b"TRAN_MSG\x01true\x02"),
        message(properties=b"TAGS\x01a\x02TAGS\x01b\x02"),
        message(properties=b"TAGS\x01\xc3\xa9\x02"),
        message(properties=b"A\x01\xff\x02"),
        message(properties=b"A\x01" + b"v" * 32_766),
        message(body=b""),
        message(lies=(1, 0, 0)),
        message(lies=(0, -1, 1)),
        b"\x00",
    ],
)
def test_one_unusual_message_declines_all(twins: TwinBrokers, bad: bytes) -> None:
    """Nothing of a batch counts before all of it does, and what follows is served as ever."""
    usual = [message()] * 3
    assert served(twins, batch(*usual) + batch(*usual, bad) + batch(*usual)) == 2


def test_a_batch_of_the_largest_size_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both by the number of its messages and by their bytes; one byte more is refused alike."""
    monkeypatch.setattr("aerobee.storage.queues.consume_queue.TAIL_ENTRIES_MAX", 8192)
    with TwinBrokers(
        monkeypatch,
        maxMessageSize="300000",
        mappedFileSizeCommitLog=str(1 << 24),
        mappedFileSizeConsumeQueue="2000000",
    ) as pair:
        tiny = message(b"x", b"")
        most = 300_000 // len(tiny)
        served(pair, batch(*[tiny] * most))  # more than a queue gets room for at once
        assert served(pair, batch(*[tiny] * 3000)) == 1
        whole = message(b"y" * (300_000 - 22), b"")
        assert served(pair, batch(whole)) == 1
        assert served(pair, batch(message(b"y" * (300_001 - 22), b""))) == 0


def test_ends_of_files_are_met_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch goes whole into the next file of the log, and over the end of a queue's."""
    with TwinBrokers(
        monkeypatch, mappedFileSizeCommitLog="65536", mappedFileSizeConsumeQueue="2000"
    ) as pair:
        rng = random.Random(3)
        for _ in range(60):
            sizes = [rng.choice((10, 100, 900)) for _ in range(rng.choice((1, 7, 30)))]
            data = batch(*(message(bytes(size)) for size in sizes))
            compiled, python = pair.exchange([data * rng.choice((1, 3))])
            assert compiled == python
        assert pair.compiled_frames > 20


def test_a_topic_of_several_tags_is_served_alike(twins: TwinBrokers) -> None:
    """The flag of such a topic is kept with each message."""
    assert served(twins, batch(message(), message(), fields={"f": "2"})) == 1


def test_mutated_batches_harm_nobody(twins: TwinBrokers) -> None:
    """Many streams with wrong bytes: the compiled code does what Python does."""
    seed = int(os.environ.get("COMPILED_SENDS_SEED", random.randrange(1 << 32)))
    print(f"COMPILED_SENDS_SEED={seed}")
    rng = random.Random(seed)
    before = twins.compiled_frames
    usual = [batch(*[message(bytes(n * 20))] * n, opaque=n) for n in range(1, 5)]
    for number in range(MUTATIONS):
        rng.shuffle(usual)
        frames = []
        for one in usual:
            changed = bytearray(one)
            for _ in range(rng.choice((0, 0, 1, 3))):
                changed[rng.randrange(8, len(changed))] = rng.choice((rng.randrange(256), 0, 1, 2))
            frames.append(bytes(changed))
        compiled, python = twins.exchange([b"".join(frames)])
        assert compiled == python, f"seed {seed}, stream {number}"
    assert twins.compiled_frames - before > MUTATIONS, "most frames are not hit, and not declined"
