"""Damage that is noted: which spans there are, and which are none any more."""

from pathlib import Path

from support.disks.logs import bodies, opened, send, small

from aerobee.storage.disk.files import Files
from aerobee.storage.log.damage import Damage, DamageTable, read_damage, write_damage

SEGMENT = 1 << 16


def test_spans_behind_the_end_of_the_log_are_forgotten() -> None:
    """One that the end lies in is damage up to there."""
    table = DamageTable()
    for begin, end in ((100, 200), (300, 400), (500, 600)):
        table.add(Damage(begin, end, "zeros"))
    table.end_at(350)
    assert [(span.begin, span.end) for span in table] == [(100, 200), (300, 350)]


def test_a_span_behind_the_end_hides_no_message_that_comes_there(tmp_path: Path) -> None:
    """A loss of power has set the log's end back: what is written there later is sound."""
    settings = small(tmp_path, segment_bytes=SEGMENT)
    store = opened(settings)
    send(store)
    store.close()
    write_damage(Files(), tmp_path, [Damage(SEGMENT // 2, SEGMENT, "zeros")])
    for _ in range(2):
        store = opened(settings)
        while store.commit_log.position < SEGMENT * 3 // 4:
            send(store, body=bytes(1000))
        store.close()
    assert not list(read_damage(Files(), tmp_path))
    store = opened(settings)
    assert not store.damage
    assert {len(body) for body in bodies(store)[1:]} == {1000}
    assert len(bodies(store)) > 30
    store.close()
