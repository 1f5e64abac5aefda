"""The file of unique keys: what goes in comes out, and of a damaged one nothing does."""

from aerobee.storage.features.dedup.snapshot import ROW, KnownKeys, decode_snapshot, encode_snapshot

ROWS = [
    ROW.pack(bytes(range(16)), 100, 1_700_000_000_000, 1),
    ROW.pack(bytes(16), 1 << 40, 1_700_000_000_001, 7),
]
KNOWN = KnownKeys({1: "orders", 7: "é"}, b"".join(ROWS))


def test_a_snapshot_is_laid_out_as_written_down() -> None:
    """Byte for byte as FORMAT.md has it."""
    data = encode_snapshot(KNOWN.topics, ROWS)
    assert data[:-4].hex() == (
        b"AERODUP1".hex() + "00000002" "00000002"
        "00000001" "0006" + b"orders".hex() + "00000007" "0002" "c3a9"
        "000102030405060708090a0b0c0d0e0f" "0000000000000064" "0000018bcfe56800" "00000001"
        "00000000000000000000000000000000" "0000010000000000" "0000018bcfe56801" "00000007"
    )  # fmt: skip
    assert decode_snapshot(data) == KNOWN
    empty = encode_snapshot({}, [])
    assert decode_snapshot(empty) == KnownKeys({}, b"")


def test_of_a_damaged_one_nothing_is_believed() -> None:
    """Not with a bit flipped, nor cut, nor with something behind it, nor of another kind."""
    data = encode_snapshot(KNOWN.topics, ROWS)
    for at in range(len(data)):
        assert decode_snapshot(data[:at]) is None
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        assert decode_snapshot(bytes(flipped)) is None
    assert decode_snapshot(data + b"\0") is None
    assert decode_snapshot(b"") is None
