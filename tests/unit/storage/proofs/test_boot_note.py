"""The note of this boot of the machine: where recovery begins from it, and where it must not."""

import struct
from pathlib import Path

import pytest
from support.disks.logs import append, bodies, opened, send, settle, small

from aerobee.remoting.message.layout import BLANK_MAGIC


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_the_note_of_this_boot_holds_wherever_the_log_stopped(tmp_path: Path, count: int) -> None:
    """Empty, inside a file, at its end, and at the next one's begin, with the next record there."""
    settings = small(tmp_path, segment_bytes=4096)
    store = opened(settings)
    for number in range(min(count, 2)):
        append(store, body=bytes(1800 + number))
    store.commit_log.commit()
    store.abandon()
    if count >= 2:
        position = store.commit_log.position
        with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
            file.seek(position)  # killed between the first file's end and the second's begin
            file.write(struct.pack(">iI", 4096 - position, BLANK_MAGIC))
        store = opened(settings)
        assert store.recovered.position == 4096
        if count == 3:
            append(store, body=b"next")
            note = (tmp_path / "aerobee.written").read_bytes()
            store.commit_log.commit()
            (tmp_path / "aerobee.written").write_bytes(note)  # killed before it was noted
        store.abandon()
    store = opened(settings)
    assert store.recovered.proof == "flushed"
    assert len(bodies(store)) == count
    store.close()


def test_the_note_of_this_boot_does_not_hold_for_another_log(tmp_path: Path) -> None:
    """A log that does not have the last record that the queues know was exchanged for another."""
    settings = small(tmp_path)
    store = opened(settings)
    send(store, body=b"first")
    settle(store)
    last = send(store, body=b"last")
    store.abandon()
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(last)
        file.write(bytes(store.commit_log.position - last))
    store = opened(settings)
    assert (store.recovered.proof, store.recovered.position) == ("flushed", last)
    assert bodies(store) == [b"first"]
    store.close()
