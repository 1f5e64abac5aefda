"""`verify` sees an index that is not sound, `repair` makes it anew, `dump` prints it."""

from array import array
from pathlib import Path

import pytest
from support.disks.indexes import SHAPE, agrees, indexed, store_keyed
from support.disks.logs import opened, small

from aerobee.storage import dump, repair, verify
from aerobee.storage.disk.files import Files
from aerobee.storage.features.index.files import IndexShape, index_files
from aerobee.storage.features.index.note import IndexNote, decode_index_note, encode_index_note
from aerobee.storage.features.index.sums import (
    IndexSums,
    decode_sums,
    encode_sums,
    sums_path,
)


@pytest.mark.parametrize(
    "place",
    ["hash", "hash in its slot", "time", "slot", "position", "between", "size", "head", "sum"],
)
def test_what_is_flipped_is_found_and_mended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    """One bit of an entry or a slot, or a file that is cut; afterwards every key is found."""
    store = opened(small(tmp_path))
    store_keyed(store, 0, 100)
    indexer = indexed(store)
    indexer.sync()
    indexer.close()
    store.close()
    assert verify.main([str(tmp_path)]) == 0, capsys.readouterr().out
    file = index_files(Files(), tmp_path, SHAPE)[0].path
    flipped = sums_path(file) if place == "sum" else file
    data = bytearray(flipped.read_bytes())
    entry = SHAPE.entries_at + 20 * 12  # the last one of the third message
    at, bit = {"hash": (entry + 3, 1), "slot": (40 + 3, 1), "size": (0, 0),
               "hash in its slot": (entry + 3, SHAPE.slots), "time": (entry + 15, 1),
               "position": (entry + 5, 1), "between": (entry + 11, 1),
               "head": (7, 1), "sum": (20, 1)}[place]  # fmt: skip
    data[at] ^= bit
    flipped.write_bytes(data[:-20] if place == "size" else data)
    assert verify.main([str(tmp_path)]) == 1
    assert file.name in capsys.readouterr().out
    assert repair.main(["--write", str(tmp_path)]) == 0, capsys.readouterr().out
    assert "made anew: 400 entries" in capsys.readouterr().out
    assert (tmp_path / "damaged" / "index" / file.name).exists()
    again = opened(small(tmp_path))
    agrees(made := indexed(again), again)
    made.close()
    again.close()


def test_dump_prints_head_entries_and_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line for each entry."""
    store = opened(small(tmp_path))
    store_keyed(store, 0, 10)
    indexer = indexed(store)
    indexer.sync()
    indexer.close()
    (file,) = index_files(Files(), tmp_path, SHAPE)
    assert dump.main([str(file.path), str(tmp_path / "aerobee.index")]) == 0
    printed = capsys.readouterr().out
    assert "40 entries in" in printed and "hash 772444468" in printed, "orders#T#A"
    assert f"{file.path.name} entries before 41, 64 slots" in printed
    assert dump.main([str(sums_path(file.path))]) == 0
    assert "40 entries of 256, 64 slots" in capsys.readouterr().out
    sums_path(file.path).write_bytes(b"AEROSUM1")
    assert dump.main([str(sums_path(file.path))]) == 1
    store.close()


def test_a_note_with_a_wrong_bit_is_none() -> None:
    """Its golden bytes, and each bit of them."""
    note = IndexNote(0, 109, "20231114221320000", 4, 5_000_000)
    data = encode_index_note(note)
    assert data.hex() == (
        "4145524f494458310000000000000000000000000000006d00000004004c4b40"
        "3230323331313134323231333230303030000000" + data[-4:].hex()
    )
    assert decode_index_note(data) == note
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        assert decode_index_note(bytes(flipped)) is None or bit // 8 in range(53, 56)


def test_sums_have_their_golden_bytes() -> None:
    """And of another shape, or cut off, they are none."""
    sums = IndexSums(1500, 1, array("I", [2, 3]), array("I", [4, 5]))
    data = encode_sums(sums, IndexShape(1025, 2000))
    assert data.hex() == (
        "4145524f53554d31" + "00000401" + "000007d0" + "000005dc"
        + "00000001" + "00000002" + "00000003" + "00000004" + "00000005"
    )  # fmt: skip
    assert decode_sums(data, IndexShape(1025, 2000)) == sums
    assert decode_sums(data, IndexShape(1024, 2000)) is None
    for length in range(len(data)):
        assert decode_sums(data[:length], IndexShape(1025, 2000)) is None


def test_of_small_files_that_nobody_has_noted_nothing_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """RocketMQ may have been told to make them so: they are no fault of the store's."""
    store = opened(small(tmp_path))
    store_keyed(store, 0, 10)
    indexer = indexed(store)
    indexer.sync()
    indexer.close()
    store.close()
    (tmp_path / "aerobee.index").unlink()
    assert verify.main([str(tmp_path)]) == 0, capsys.readouterr().out
    (file,) = (tmp_path / "index").iterdir()
    assert dump.main([str(file)]) == 0
    assert "aerobee.index would say it" in capsys.readouterr().out
    assert repair.main(["--write", str(tmp_path)]) == 0, capsys.readouterr().out
    assert file.exists()
