"""The compiled loops of the index do what Python does, to the byte, whatever the bytes say."""

import itertools
import tempfile
from array import array
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isal.isal_zlib import crc32
from support.disks.indexes import properties
from support.examples import examples

from aerobee.remoting.message.record import Record, decode_record, encode_record
from aerobee.storage.features.index import slices
from aerobee.storage.features.index.keys import index_hash, key_text, record_keys
from aerobee.storage.features.index.runs import RUN, RUN_HASH
from aerobee.storage.features.index.sums import EntrySums

compiled = pytest.importorskip("aerobee.storage.compiled.index_slices")

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), max_size=20) | st.text(
    "aZ#0", max_size=90
)
HOSTS = st.sampled_from([("10.0.0.1", 4000), ("2001:db8::1", 10911)])
EDGES = [
    bytes([byte])
    for byte in b"a \x02\x80\x8f\x90\x9f\xa0\xbf\xc1\xc2\xdf\xe0\xe4\xed\xef\xf0\xf1\xf4\xf5\xff"
]
"""At which what may follow changes, in UTF-8."""
RAW = st.one_of(
    st.builds(properties, TEXT, TEXT, TEXT).map(lambda raw: raw[:2000]),
    st.lists(
        st.sampled_from([b"UNIQ_KEY\x01a", b"KEYS\x01a  b c ", b"TAGS\x01", b"KEYS\x01\xff\xc3(",
                         b"KEYS\x01" + b"ab c " * 50, b"WAIT\x01" + b"x" * 70,
                         b"\x01x", b"", b"TAGS\x01\xed\xa0\x80", b"UNIQ_KEY\x01\xf4\x90\x80\x80"])
    ).map(b"\x02".join),
    st.lists(st.sampled_from(EDGES), max_size=40).map(lambda key: b"KEYS\x01" + b"".join(key)),
)  # fmt: skip
RECORDS = st.lists(
    st.builds(
        Record,
        topic=st.one_of(st.sampled_from(["orders", "t" * 130, "主题"]), TEXT.filter(bool)),
        sys_flag=st.sampled_from([0, 4, 8, 12]),
        born_host=HOSTS,
        store_host=HOSTS,
        store_timestamp=st.sampled_from([0, -5, 1_700_000_000_000, 1_700_000_000_999, 1 << 62]),
        body=st.binary(max_size=40),
        properties=RAW,
    ),
    max_size=6,
)
FLIPS = st.lists(st.tuples(st.floats(0, 0.999), st.integers(1, 255)), max_size=3)


def log_of(records: list[Record], base: int) -> bytearray:
    """The records one behind the other, as from a position on."""
    data = bytearray()
    for record in records:
        whole = bytearray(encode_record(record))
        whole[28:36] = (base + len(data)).to_bytes(8, "big")
        data += whole
    return data


class Tables:
    """What the loops change."""

    def __init__(self, room: int, count_max: int) -> None:
        self.slots = np.zeros(4 * 7, np.uint8)
        self.dirty = np.zeros(1, np.uint8)
        self.entries = np.zeros(20 * room, np.uint8)
        self.state = np.array([0, 0, 0, 0, 0, 1, count_max], np.int64)

    @property
    def all(self) -> tuple[Any, ...]:
        """In the order of the loops' arguments."""
        return self.slots, self.dirty, self.entries, self.state

    def same(self, other: "Tables") -> bool:
        """Whether another has the same bytes."""
        return all(map(np.array_equal, self.all, other.all))


@given(RECORDS, FLIPS, st.integers(0, 250), st.integers(1, 250), st.integers(0, 110))
@settings(deadline=None, max_examples=examples(60))
def test_records_give_the_same_entries(
    records: list[Record],
    flips: list[tuple[float, int]],
    room: int,
    count_max: int,
    keys_done: int,
) -> None:
    """Whatever the bytes say, text that is no UTF-8 included."""
    data = log_of(records, 1000)
    for place, bits in flips:
        if data:
            data[int(place * len(data))] ^= bits
    ours, theirs = Tables(room, count_max), Tables(room, count_max)
    raw = bytes(data)
    at, done, why = compiled.index_records(raw, 0, len(raw), 1000, keys_done, *theirs.all)
    expected = slices.index_records(raw, 0, len(raw), 1000, keys_done, *ours.all)
    assert expected == (at, done, why)
    assert theirs.same(ours)


def runs_of(data: bytes, base: int, cuts: list[int]) -> bytes:
    """What who packs these records hands over of their keys, in runs of so many records."""
    made, at = [], 0
    for count in itertools.chain(cuts, itertools.repeat(1)):
        hashes, begin, stamp = [], at, None
        while count and at < len(data):
            record = decode_record(data, at)
            if stamp not in (None, record.store_timestamp):
                break  # a run is of one moment
            stamp = record.store_timestamp
            if record.sys_flag & 12 != 12:
                hashes += [
                    RUN_HASH.pack(at - begin, index_hash(key_text(record.topic, key, kind)))
                    for kind, key in record_keys(record.topic, record.properties)
                ]
            at, count = at + record.total_size, count - 1
        run = RUN.pack(base + begin, base + at, stamp or 0, len(hashes))
        made.append(run + b"".join(hashes))
        if at >= len(data):
            return b"".join(made)
    raise AssertionError


@given(
    RECORDS, st.lists(st.integers(1, 4), max_size=6), st.integers(1, 250), st.integers(1, 250),
    st.integers(0, 9), st.integers(0, 1 << 14), st.integers(0, 20),
)  # fmt: skip
@settings(deadline=None, max_examples=examples(60))
def test_runs_give_the_entries_that_the_log_gives(
    records: list[Record], cuts: list[int], room: int, count_max: int, keys_done: int,
    until: int, hole: int,
) -> None:  # fmt: skip
    """From any record and key on, as far as there is room; and C does what Python does."""
    data = bytes(log_of(records, 1000))
    begins = [at for at in range(len(data)) if data[at + 28 : at + 36] == (1000 + at).to_bytes(8)]
    position = 1000 + (begins[hole % len(begins)] if begins else 0)
    runs = runs_of(data, 1000, cuts)
    log, ours, theirs = (Tables(room, count_max) for _ in range(3))
    end = 1000 + len(data)
    given_ = (runs, 0, len(runs), position, keys_done, end)
    found = slices.index_runs(*given_, *ours.all)
    assert compiled.index_runs(*given_, *theirs.all) == found
    assert theirs.same(ours)
    at, done, why = slices.index_records(
        data, position - 1000, len(data), 1000, keys_done, *log.all
    )
    assert log.same(ours)
    if why == slices.FULL or data:
        assert found[1:] == (1000 + at, done if why == slices.FULL else 0, why)
    # in portions, of what is committed by and by, and from a position that no run has
    part = min(until, len(runs))
    for begin, log_end in ((position, 1000 + until), (999, end), (end + 1, end)):
        ours, theirs = Tables(room, count_max), Tables(room, count_max)
        given_ = (runs, 0, part, begin, keys_done, log_end)
        assert compiled.index_runs(*given_, *theirs.all) == slices.index_runs(*given_, *ours.all)
        assert theirs.same(ours)


@given(RECORDS, FLIPS)
@settings(deadline=None, max_examples=examples(60))
def test_packed_records_become_runs_of_what_they_say(
    records: list[Record], flips: list[tuple[float, int]]
) -> None:
    """Whatever the bytes say: runs of all of them, or none, and then they are left out."""
    data = log_of(records, 1000)
    for place, bits in flips:
        if data:
            data[int(place * len(data))] ^= bits
    raw, made = bytes(data), compiled.KeyRuns(1 << 20)
    made.note(raw, 1000)
    assert made.waiting_bytes == len(made)
    log, ours = Tables(700, 700), Tables(700, 700)
    at, _, _ = slices.index_records(raw, 0, len(raw), 1000, 0, *log.all)
    assert (made.left_out == 0) == (at == len(raw))
    if made.left_out:
        assert not made.waiting_bytes
        return
    slices.index_runs(bytes(made), 0, len(made), 1000, 0, 1000 + len(raw), *ours.all)
    assert ours.same(log)


def test_no_run_is_long() -> None:
    """Of however many keys a batch is: the loop takes whole ones, a few of them at a time."""
    text = properties("U", " ".join("abcdefghij"), "A")
    data = bytes(log_of([Record(topic="orders", properties=text)] * 2_000, 0))
    made = compiled.KeyRuns(1 << 20)
    made.note(data, 0)
    runs, at, position, keys = bytes(made), 0, 0, 0
    while at < len(runs):
        begin, end, _, count = RUN.unpack_from(runs, at)
        assert begin == position
        assert 0 < count < 1100
        at, position, keys = at + RUN.size + count * RUN_HASH.size, end, keys + count
    assert (position, keys) == (len(data), 2_000 * 12)


@given(st.binary(max_size=100), st.integers(0, 100), st.integers(0, 1 << 40))
@settings(deadline=None, max_examples=examples(60))
def test_what_is_no_run_is_not_read_beyond(data: bytes, until: int, position: int) -> None:
    """A count of more than there is ends it."""
    made = Tables(9, 9)
    part = min(until, len(data))
    at, *_ = compiled.index_runs(data, 0, part, position, 0, 1 << 62, *made.all)
    assert 0 <= at <= len(data)


@given(RECORDS, FLIPS, st.integers(0, 2000))
@settings(deadline=None, max_examples=examples(60))
def test_entries_are_linked_and_unlinked_alike(
    records: list[Record], flips: list[tuple[float, int]], log_end: int
) -> None:
    """The same number of them counts as sound, and slots lead to the same ones."""
    made = Tables(700, 700)
    slices.index_records(data := bytes(log_of(records, 0)), 0, len(data), 0, 0, *made.all)
    entries = bytearray(made.entries.tobytes()[: 20 * (int(made.state[5]) - 1)])
    for place, bits in flips:
        if entries:
            entries[int(place * len(entries))] ^= bits
    ours, theirs = np.zeros(28, np.uint8), np.zeros(28, np.uint8)
    raw = bytes(entries)
    found = slices.link_entries(raw, 1, log_end, 0, ours)
    assert compiled.link_entries(raw, 1, log_end, 0, theirs) == found
    assert np.array_equal(ours, theirs)
    sound = raw[: 20 * found[0]]
    assert compiled.unlink_entries(sound, theirs) == slices.unlink_entries(sound, ours) == found[2]
    assert not ours.any() and not theirs.any()


@given(RECORDS, FLIPS, st.integers(-2, 60), st.integers(0, 20), st.integers(0, 10))
@settings(deadline=None, max_examples=examples(60))
def test_chains_are_followed_alike(
    records: list[Record], flips: list[tuple[float, int]], start: int, walked: int, room: int
) -> None:
    """With numbers that lead anywhere; both end."""
    made = Tables(700, 700)
    slices.index_records(data := bytes(log_of(records, 0)), 0, len(data), 0, 0, *made.all)
    count = int(made.state[5])
    entries = bytearray(made.entries.tobytes()[: 20 * (count - 1)])
    none, summed = array("I"), EntrySums()
    summed.add(bytes(entries))
    written = summed.all()
    for place, bits in flips:
        if entries:
            entries[int(place * len(entries))] ^= bits
    with tempfile.TemporaryFile() as file:
        file.write(bytes(60) + entries)
        file.flush()
        hashes = {0, *(int.from_bytes(entries[at : at + 4], "big", signed=True)
                       for at in range(0, len(entries), 20))}  # fmt: skip
        for key_hash, sums in itertools.product(hashes, (none, written)):
            ours, theirs = np.zeros(room, np.int64), np.zeros(room, np.int64)
            asked = (start, count, key_hash, 0, 0, 1 << 62, walked)
            found = slices.follow_chain(file.fileno(), 40, *asked, ours, sums)
            assert compiled.follow_chain(file.fileno(), 40, *asked, theirs, sums) == found
            assert np.array_equal(ours, theirs)
            if sums is written and entries != made.entries.tobytes()[: len(entries)]:
                assert not found[3] or not found[2], "not all that was written is there"


@given(st.lists(st.integers(0, 2500), max_size=4), st.integers(1, 4000))
@settings(deadline=None, max_examples=examples(30))
def test_sums_are_those_of_blocks(counts: list[int], cut: int) -> None:
    """However entries came, and some were taken away; a chain over all of them is followed."""
    total = sum(counts)
    entries = b"".join(
        number.to_bytes(4, "big") + bytes(12) + (number - 1).to_bytes(4, "big")
        for number in range(1, total + 1)
    )
    sums, at = EntrySums(), 0
    for count in counts:
        sums.add(entries[at * 20 : (at + count) * 20])
        at += count
    kept = min(cut, total + 1)
    begin = sums.cut(kept)
    sums.add(entries[(begin - 1) * 20 : (kept - 1) * 20])
    blocks = [entries[max(0, at - 1) * 20 : min(at + 1023, kept - 1) * 20]
              for at in range(0, kept, 1024)]  # fmt: skip
    assert list(sums.all()) == [crc32(block) for block in blocks]
    with tempfile.TemporaryFile() as file:
        file.write(bytes(20) + entries)
        file.flush()
        for loop in (slices, compiled):
            asked = (file.fileno(), 0, kept - 1, kept, 7, 0, 0, 1 << 62, 9999, array("q", [0] * 9))
            _, _, walked, sound = loop.follow_chain(*asked, sums.all())
            assert (walked, bool(sound)) == (kept - 1, True)


@given(st.binary(max_size=300), st.integers(1, 50), st.integers(0, 49), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=examples(60))
def test_blocks_are_summed_alike(data: bytes, block: int, taken: int, begun: int) -> None:
    """From the middle of a block on, to the middle of another."""
    room = block - taken % block
    ours, theirs = (array("I", bytes(4 * (len(data) // block + 2))) for _ in range(2))
    found = slices.add_sums(data, begun, room, block, ours)
    assert compiled.add_sums(data, begun, room, block, theirs) == found
    assert ours == theirs
    ends = [0, *range(room, len(data) + 1, block)]
    parts = [data[begin:end] for begin, end in itertools.pairwise(ends)]
    expected = [crc32(part, begun if not at else 0) for at, part in enumerate(parts)]
    assert list(ours[: found[0]]) == expected
    assert found[1] == crc32(data[ends[-1] :], 0 if parts else begun)


def test_runs_change_places() -> None:
    """Who takes them has them to itself, and the other one goes on behind them."""
    first, last = (
        bytes(log_of([Record(topic="orders", properties=properties("U", key, "A"))], at))
        for at, key in ((0, "a"), (500, "b"))
    )
    added, taken = compiled.KeyRuns(1 << 20), compiled.KeyRuns(1 << 20)
    added.note(first, 0)
    whole = bytes(added)
    taken.swap(added)
    assert (bytes(taken), bytes(added)) == (whole, b"")
    added.trim()
    taken.trim()
    added.note(last, 500)
    assert bytes(taken) == whole
    assert RUN.unpack_from(added)[0] == 500
    taken.take(len(taken))
    taken.trim()
    taken.swap(added)
    assert RUN.unpack_from(taken)[0] == 500
    assert not len(added)


@pytest.mark.parametrize("key", [b"a ", b"\xff "])
def test_as_many_keys_as_fit_into_a_message_cost_the_loop_nothing(key: bytes) -> None:
    """Whoever sends them must not have Python hash them, which holds up all others."""
    text = b"KEYS\x01" + key * 16_381
    data = bytes(log_of([Record(topic="orders", properties=text[:32_767])], 0))
    ours, theirs = Tables(20_000, 20_000), Tables(20_000, 20_000)
    found = compiled.index_records(data, 0, len(data), 0, 0, *theirs.all)
    assert found == (len(data), 0, slices.MORE)
    assert found == slices.index_records(data, 0, len(data), 0, 0, *ours.all)
    assert theirs.same(ours)
    assert ours.state[5] == 16_382
