"""What compiled sends hand the index of their keys is what the log says, to the byte."""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.send_frames import compact, frame, header
from support.servers.brokers import send_command
from support.servers.twin_brokers import TwinBrokers

from aerobee.broker.app import Broker
from aerobee.broker.compiled.choice import is_compiled
from aerobee.broker.features.index import feature
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.layout import BATCH_FIELDS
from aerobee.storage.features.index import slices

pytestmark = pytest.mark.skipif(not is_compiled(), reason="built without a C compiler")

USUAL = send_command(properties="UNIQ_KEY\x01A\x02").ext
NAMES = st.sampled_from(["KEYS", "TAGS", "KEY", "KEYS2", "XTAGS", "UNIQ_KEYS", "WAIT", "DELAY"])
VALUES = st.one_of(
    st.sampled_from(["a b", " a  b ", "k" * 90, "TagA", "é", "主题 \U0001f600", "#", "\x7f"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=40),
)  # fmt: skip
PAIRS = st.lists(st.tuples(NAMES, VALUES), max_size=5)


def let_runs_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the index ask for nothing."""
    for name in ("FOLLOW_BYTES", "FOLLOW_BYTES_WITH_RUNS"):
        monkeypatch.setattr(feature, name, sys.maxsize >> 1)
    for name in ("FOLLOW_INTERVAL_S", "EXPIRY_INTERVAL_S"):
        monkeypatch.setattr(feature, name, 3600.0)


@pytest.fixture(scope="module")
def twins() -> Iterator[TwinBrokers]:
    """Run a pair whose index leaves the runs to the test."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        let_runs_wait(monkeypatch)
        with TwinBrokers(monkeypatch) as pair:
            yield pair


def text_of(pairs: list[tuple[str, str]]) -> str:
    """The property string of these."""
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs)


def one(pairs: list[tuple[str, str]], body: bytes, queue: int, at: int) -> bytes:
    """A send, its unique key among the others."""
    pairs = [*pairs[:at], ("UNIQ_KEY", f"7F00{queue}A"), *pairs[at:]]
    fields = {**USUAL, "e": str(queue), "i": text_of(pairs)}
    return frame(compact(header(fields)), body)


def many(messages: list[list[tuple[str, str]]], body: bytes) -> bytes:
    """A batch; a name may come twice, or not at all."""
    packed = []
    for pairs in messages:
        text = text_of(pairs).encode()
        size = BATCH_FIELDS.run().size + len(body) + 2 + len(text)
        packed.append(BATCH_FIELDS.run().pack(size, 0, 0, 0, len(body)) + body)
        packed.append(len(text).to_bytes(2) + text)
    command = send_command(b"".join(packed), code=RequestCode.SEND_BATCH_MESSAGE)
    command.ext["m"] = "true"
    return encode_frame(command)


SENDS = st.one_of(
    st.builds(one, PAIRS, st.binary(min_size=1, max_size=80), st.integers(0, 3), st.integers(0, 5)),
    st.builds(many, st.lists(PAIRS, min_size=1, max_size=5), st.binary(min_size=1, max_size=60)),
)


def fresh_tables() -> tuple[Any, ...]:
    """What the loops change."""
    state = np.array([0, 0, 0, 0, 0, 1, 20_000], np.int64)
    return np.zeros(4 * 97, np.uint8), np.zeros(1, np.uint8), np.zeros(20 * 20_000, np.uint8), state


def runs_of(broker: Broker) -> Any:
    """What the index has of packed records."""
    room = next(room for room in broker.rooms if isinstance(room, feature.MessageIndex))
    assert room.runs is not None
    return room.runs


def waiting(broker: Broker) -> bytes:
    """The runs that wait for the index, which are taken."""
    runs = runs_of(broker)
    data = bytes(runs)
    runs.take(len(runs))
    return data


def agree(runs: bytes, log: bytes, begin: int) -> int:
    """Assert that runs and the log between them give the same entries; return the runs' share."""
    ours, theirs = fresh_tables(), fresh_tables()
    at, position, covered = 0, begin, 0
    slices.index_records(log, 0, len(log), begin, 0, *ours)
    slots, dirty, entries, state = theirs
    while position < begin + len(log):
        at, position, _, why = slices.index_runs(
            *(runs, at, len(runs), was := position, 0, begin + len(log)),
            *(slots, dirty, entries[20 * (state[5] - 1) :], state),
        )
        covered += position - was
        if position < begin + len(log):  # one record that came another way
            step = slices.index_records(
                *(log, position - begin, len(log), begin, 0),
                *(slots, dirty, entries[20 * (state[5] - 1) :], state),
                records_max=1,
            )
            assert why == slices.OTHER or at == len(runs)
            position = begin + step[0]
    assert all(map(np.array_equal, ours, theirs))
    return covered


@given(st.lists(SENDS, min_size=1, max_size=12), st.lists(st.integers(1, 900), max_size=3))
@settings(
    max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck)
)  # fmt: skip
def test_runs_say_what_the_log_says(
    twins: TwinBrokers, frames: list[bytes], cuts: list[int]
) -> None:
    """Of single sends and batches, declined ones among them, in any pieces."""
    data, pieces = b"".join(frames), []
    for cut in cuts:
        pieces.append(data[:cut])
        data = data[cut:]
    compiled = twins.brokers[0]
    waiting(compiled)
    begin = compiled.store.commit_log.position
    compiled_state, python_state = twins.exchange([*pieces, data])
    assert compiled_state == python_state
    log = compiled.store.commit_log
    agree(waiting(compiled), log.read(begin, log.position - begin), begin)


def test_all_that_is_served_is_covered(twins: TwinBrokers) -> None:
    """Nothing of it has to be read from the log."""
    data = one([("KEYS", "a b")], b"body", 1, 0) * 9 + many([[("KEYS", "c")], []], b"x")
    for _ in range(2):  # a first one may be declined, for room
        compiled = twins.brokers[0]
        waiting(compiled)
        begin = compiled.store.commit_log.position
        twins.exchange([data, data])
        log = compiled.store.commit_log
        count = log.position - begin
        covered = agree(waiting(compiled), log.read(begin, count), begin)
    assert covered == count


def test_what_has_no_room_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the log is read there; what came before and comes later is not."""
    let_runs_wait(monkeypatch)
    monkeypatch.setattr(feature, "RUNS_BYTES_MAX", 200)
    with TwinBrokers(monkeypatch) as pair:
        compiled = pair.brokers[0]
        runs, log = runs_of(compiled), compiled.store.commit_log
        waiting(compiled)
        begin, data = log.position, one([("KEYS", "a b")], b"body", 1, 0)
        for _ in range(30):
            pair.exchange([data])
        assert runs.left_out > 20
        assert 200 <= runs.waiting_bytes < 400
        kept = waiting(compiled)
        pair.exchange([data] * 2)
        count = log.position - begin
        read = log.read(begin, count)
        assert 0 < agree(kept + waiting(compiled), read, begin) < count
