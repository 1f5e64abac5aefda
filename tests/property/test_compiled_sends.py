"""Compiled sends against the Python that defines them: same log, same queues, same replies."""

import itertools
import os
import random
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
from aerobee.client.message import Message, MessageQueue
from aerobee.client.sending.frames import SendHeaders
from aerobee.client.sending.outgoing import Packer
from aerobee.client.settings import ProducerSettings
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.frame import encode_frame

pytestmark = pytest.mark.skipif(not is_compiled(), reason="built without a C compiler")

MUTATIONS: Final = int(os.environ.get("COMPILED_SENDS_MUTATIONS", examples(1500)))
THOROUGH: Final = settings(
    max_examples=examples(200),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


@pytest.fixture(scope="module")
def twins() -> Iterator[TwinBrokers]:
    """Run a pair whose log rolls and whose queues are extended often."""
    with pytest.MonkeyPatch.context() as monkeypatch, TwinBrokers(monkeypatch) as pair:
        yield pair


def served(twins: TwinBrokers, data: bytes, peer: str = "127.0.0.1") -> int:
    """Return how many frames of one read the compiled code serves, the more of two times.

    It declines a frame where a queue or the log needs a further file: once, not twice in a row.
    """
    counts = []
    for _ in range(2):
        before = twins.compiled_frames
        compiled, python = twins.exchange([data], peer)
        assert compiled == python
        counts.append(twins.compiled_frames - before)
    return max(counts)


USUAL: Final = send_command(properties="KEYS\x01k1\x02UNIQ_KEY\x01AB01\x02TAGS\x01TagA\x02").ext

words = st.sampled_from(
    ["UNIQ_KEY", "TAGS", "KEYS", "WAIT", "DELAY", "MODEL", "TRAN_MSG", "POP_CK", "POP_X", "XTAGS",
     "MY_UNIQ_KEY", "", "DEL", "L", "_", "TRAN", "PGROUP", "INNER_NUM"]
)  # fmt: skip
values = st.one_of(
    st.sampled_from(["A1", "TagA", "true", "", "0", "a b", 'q"uote', "back\\slash", "a/b", "é",
                     "\u4e2d", "\x00", "\x7f", "\t", "\ud800", "\U0001f600", "x" * 70]),
    st.text(alphabet="AZaz09_L-\x01\x02", max_size=8),
)  # fmt: skip
properties = st.one_of(
    st.lists(st.tuples(words, values), max_size=5).map(
        lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in pairs)
    ),
    st.text(alphabet="UNIQ_KEY\x01\x02TAGSDEL", max_size=40),
    st.sampled_from(["x" * 32_600, "UNIQ_KEY\x01A\x02X\x01" + "y" * 32_690]),
).flatmap(
    lambda text: st.sampled_from([text, f"UNIQ_KEY\x01K7\x02{text}", text.removesuffix("\x02")])
)
numbers = st.sampled_from(
    ["0", "1", "2", "3", "4", "-1", "-0", "01", "+1", "", " 1", "1.0", "1e3", "true", "false", "x",
     "7", "256", "1792", "16", "2147483647", "2147483648", "-2147483648", "-2147483649", "9" * 18,
     "9" * 19, "9223372036854775807", "9223372036854775808", "9" * 40, None, 0, 1, False, True]
)  # fmt: skip
letters = st.sampled_from("abcdefghijklmnz")
signatures = st.sampled_from(["A" * 28, "B/+" * 9 + "=", "C" * 27, 'D"' + "D" * 26, "é" * 28, ""])
changes = st.lists(
    st.one_of(
        st.tuples(st.just("i"), properties),
        st.tuples(letters, numbers),
        st.tuples(st.sampled_from(["b", "a", "c", "n"]), st.sampled_from(["T", "U", "é", "t\\u"])),
        st.tuples(st.sampled_from(["zone", "é", "aa", "k\\"]), values),
        st.tuples(st.sampled_from(["AccessKey", "Signature"]), signatures),
    ),
    max_size=3,
)
one_property_string = st.tuples(st.just("i"), properties).map(lambda change: [change])
outers: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(["code", "opaque", "flag", "remark", "language", "version", "extFields", "x"]),
    st.one_of(
        st.sampled_from([310, 0, 1, 2, -1, None, "", "0", "310", "a\nb", 1.5, True, {}, []]),
        st.sampled_from([2**31, -(2**31), 10**17, 10**18, 2**63, 2**70]),
    ),
    max_size=1,
)


@st.composite
def sends(draw: st.DrawFn) -> bytes:
    """Draw a send, most often with something unusual about it."""
    fields: dict[str, Any] = {**USUAL, "e": draw(st.sampled_from("0123"))}
    for name, value in draw(st.one_of(st.just([]), one_property_string, changes)):
        fields[name] = value
    if not draw(st.integers(0, 9)):
        fields.pop(draw(letters), None)
    if draw(st.booleans()):
        fields = dict(draw(st.permutations(list(fields.items()))))
    whole = header(fields, **draw(st.one_of(st.just({}), st.just({}), outers)))
    if draw(st.booleans()):
        whole = dict(draw(st.permutations(list(whole.items()))))
    text = compact(whole, ascii_only=draw(st.booleans()))
    text += draw(st.sampled_from([b""] * 6 + [b"\n", b" \n", b"x", b"\x00", b"}"]))
    body = draw(st.one_of(st.binary(max_size=200), st.sampled_from([bytes(5000), b"x" * 1024])))
    return frame(text, body, draw(st.sampled_from([0] * 30 + [-1, 1, 300, 1 << 23])),
                 draw(st.sampled_from([0] * 30 + [1, 2, 9])))  # fmt: skip


others = st.one_of(
    st.builds(pull_command, st.integers(0, 3)).map(encode_frame),
    st.builds(send_command, st.binary(min_size=1, max_size=50)).map(encode_frame),
    st.builds(send_command, code=st.just(RequestCode.SEND_BATCH_MESSAGE)).map(encode_frame),
    st.binary(max_size=30),
    st.sampled_from([b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff\x00"]),
)


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    """Split a stream as a network may."""
    places = [0, *itertools.accumulate(cuts), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(places)]


@THOROUGH
@given(
    frames=st.lists(st.one_of(sends(), sends(), others), min_size=1, max_size=12),
    cuts=st.lists(st.integers(1, 3000), max_size=8),
)
def test_compiled_and_python_do_the_same(
    twins: TwinBrokers, frames: list[bytes], cuts: list[int]
) -> None:
    """For any stream of sends, usual, unusual and hostile, however it is split."""
    compiled, python = twins.exchange(cut(b"".join(frames), cuts))
    assert compiled == python


@pytest.mark.parametrize("change", [b"", b"0", b"9", b'"', b",", b"e"])
def test_what_is_almost_like_the_one_before_is_told_alike(
    twins: TwinBrokers, change: bytes
) -> None:
    """Whichever byte of a header differs from that of the same producer's last one."""
    usual = compact(header(USUAL))
    for at in range(len(usual)):
        changed = usual[:at] + change + usual[at + 1 :]
        data = b"".join(frame(text, b"body") for text in (usual, changed, usual))
        compiled, python = twins.exchange([data])
        assert compiled == python, changed


@pytest.mark.parametrize("client", ["java-5.5.0", "java-4.9.8"])
def test_what_java_clients_send_is_not_declined(twins: TwinBrokers, client: str) -> None:
    """A recorded frame is served by the compiled code."""
    recorded = ROOT / f"tests/golden/frames/{client}-produces/SEND_MESSAGE_V2-request.hex"
    data = load_frame(recorded).frame
    assert served(twins, data * 5) == 5


def test_what_our_client_sends_is_not_declined(twins: TwinBrokers) -> None:
    """Its frames are made from templates of its own."""
    settings = ProducerSettings()
    packer, headers = Packer("producers", settings), SendHeaders("producers", settings)
    message = Message("T", b"body", tags="TagA", keys="k1", properties={"name": "v\u00e9 %d"})
    queue = MessageQueue("T", "broker-a", 2)
    data = b"".join(
        headers.frame(packer.pack(message), queue, opaque) for opaque in (1, 2, 2**31 - 1)
    )
    assert served(twins, data) == 3


@pytest.mark.parametrize("tail", [b"", b"\n"])
@pytest.mark.parametrize("order", [sorted, lambda names: sorted(names, reverse=True), list])
def test_any_order_of_names_is_not_declined(twins: TwinBrokers, order: Any, tail: bytes) -> None:
    """Clients in Go, C++ and JavaScript write the same names in other orders."""
    fields = {name: USUAL[name] for name in order(USUAL)}
    whole = header(fields, remark=None)
    text = compact({name: whole[name] for name in order(whole)}) + tail
    assert served(twins, frame(text, b"body")) == 1


def test_a_peer_with_a_longer_address_is_stored_alike(twins: TwinBrokers) -> None:
    """Records of IPv6 peers are longer and carry a flag."""
    assert served(twins, with_value(b"v") * 3, peer="2001:db8::7") == 3


def test_turns_end_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one connection may have served at a time counts the same frames, and all get served."""
    pull = encode_frame(pull_command(2))
    monkeypatch.setattr("aerobee.storage.queues.consume_queue.TAIL_ENTRIES_MIN", 512)
    with TwinBrokers(monkeypatch, framesPerTurnMax="3") as pair:
        for count in range(1, 9):
            stream = with_value(b"v") * count + pull + with_value(b"v") * (9 - count) + pull
            compiled, python = pair.exchange([stream])
            assert compiled == python
        assert pair.compiled_frames == 8 * 9


def test_topics_in_any_order_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than a run remembers, names that begin or end alike, and unknown ones."""
    names = ("A", "AA", "AB", "BA", *(f"name{number}" for number in range(40)))
    monkeypatch.setattr("support.servers.twin_brokers.TOPICS", names)
    unknown = ("B", "name", "name400", "xname1", "A\x01", "")
    frames = {
        name: frame(compact(header({**USUAL, "b": name, "e": "0"})), b"body")
        for name in (*names, *unknown)
    }
    drawn = random.Random(7)
    with TwinBrokers(monkeypatch) as pair:
        for _ in range(20):
            data = b"".join(frames[name] for name in drawn.choices(names, k=100))
            assert served(pair, data) == 100
            some = drawn.choices((*names, *unknown), k=30)
            compiled, python = pair.exchange([b"".join(frames[name] for name in some)])
            assert compiled == python


def test_a_lone_senders_reads_are_told_alike(twins: TwinBrokers) -> None:
    """Whatever stands behind those that are answered before the others are served.

    Some answers overtake others; and where what is no frame cuts the connection off, the first
    ones have left already.
    """
    send, pull = with_value(b"v"), encode_frame(pull_command(2))
    unusual = frame(compact(header({**USUAL, "f": "9"})), b"body")
    for middle, is_cut in ((b"", False), (pull, False), (unusual, False), (b"\xff" * 8, True)):
        for first in (31, 32, 33, 80):
            reads = [send * 2, send * 2, send * first + middle + send * 40, send * 100]
            compiled, python = twins.exchange(reads)
            answers = sorted(frames_of(compiled.pop("written")))
            others = sorted(frames_of(python.pop("written")))
            assert compiled == python
            assert len(answers) == len(others) + 32 if is_cut and first > 31 else answers == others


def frames_of(data: bytes) -> Iterator[bytes]:
    """Yield each frame of what was written, as it is."""
    at = 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        yield data[at:end]
        at = end


def with_value(value: bytes) -> bytes:
    """Return a send with a property of these bytes."""
    text = compact(header({**USUAL, "i": "UNIQ_KEY\x01A1\x02name\x01VALUE"}))
    return frame(text.replace(b"VALUE", value), b"body")


@pytest.mark.parametrize("value", ["é", "\u0800\ud7ff\ue000", "\u4e2d", "\U00010000", "\U0010ffff"])
def test_properties_in_any_language_are_not_declined(twins: TwinBrokers, value: str) -> None:
    """Characters beyond ASCII are stored as they came."""
    assert served(twins, with_value(value.encode())) == 1


def test_bytes_that_are_no_characters_are_told_alike(twins: TwinBrokers) -> None:
    """Each edge of UTF-8 is where Python has it."""
    firsts = bytes.fromhex("7f 80 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 ff")
    seconds = bytes.fromhex("22 7f 80 8f 90 9f a0 bf c0")
    tails = [b"", b"\x80", b"\x80\xbf", b"\x80\x7f", b"\xc0\x80", b"\x80\xbf\x80"]
    for first, second, tail in itertools.product(firsts, seconds, tails):
        data = with_value(bytes([first, second]) + tail)
        compiled, python = twins.exchange([data])
        assert compiled == python, data


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Change a few bytes: overwrite, insert, cut out, repeat."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(4)
        if kind == 0 and at < len(changed):
            changed[at] = rng.choice((rng.randrange(256), *b'"\\{}:,0L_\x00\xff'))
        elif kind == 1:
            changed[at:at] = rng.randbytes(rng.choice((1, 1, 3, 40)))
        elif kind == 2:
            del changed[at : at + rng.choice((1, 1, 4, 200))]
        else:
            changed[at:at] = changed[at : at + rng.choice((2, 20, 300))]
    return bytes(changed)


def test_mutated_frames_harm_nobody(twins: TwinBrokers) -> None:
    """Many thousand streams with wrong bytes: the compiled code does what Python does."""
    seed = int(os.environ.get("COMPILED_SENDS_SEED", random.randrange(1 << 32)))
    print(f"COMPILED_SENDS_SEED={seed}")
    rng = random.Random(seed)
    before = twins.compiled_frames
    usual = [
        frame(compact(header({**USUAL, "e": str(number % 4)}, opaque=number)), bytes(number * 30))
        for number in range(1, 5)
    ]
    for number in range(MUTATIONS):
        rng.shuffle(usual)
        data = b"".join(mutated(rng, one) if rng.random() < 0.5 else one for one in usual)
        pieces = [data] if rng.random() < 0.8 else cut(data, [rng.randrange(1, len(data) + 1)])
        compiled, python = twins.exchange(pieces)
        assert compiled == python, f"seed {seed}, stream {number}"
    assert twins.compiled_frames - before > MUTATIONS, "most frames are not hit, and not declined"
