"""The note of where topics begin anew: each is packed once, however many there are."""

from pathlib import Path

import pytest

from aerobee.storage.disk.files import Files
from aerobee.storage.proofs.progress import encode_entry
from aerobee.storage.queues import topic_positions
from aerobee.storage.queues.topic_positions import TopicPositions


def test_one_more_of_many_packs_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the file says of all what it said; what the log has no more goes, and may come again."""
    packed: list[str] = []
    pack = encode_entry

    def noted(topic: str, queue_id: int, max_offset: int) -> bytes:
        packed.append(topic)
        return pack(topic, queue_id, max_offset)

    def read() -> dict[str, int]:
        again = TopicPositions(Files(), tmp_path / "note")
        again.load()
        return {name: again.before(name) for name in (*names, "new")}

    monkeypatch.setattr(topic_positions, "encode_entry", noted)
    note = TopicPositions(Files(), tmp_path / "note")
    names = [f"t{number}" for number in range(1_000)]
    note.add({name: 10 + at for at, name in enumerate(names)}, 0)
    assert packed == names
    packed.clear()
    note.add({"new": 5_000}, 0)
    assert packed == ["new"]
    assert read() == {name: 10 + at for at, name in enumerate(names)} | {"new": 5_000}
    packed.clear()
    note.add({"t999": 6_000, "t0": 6_000}, 500)
    assert sorted(packed) == ["t0", "t999"]
    left = {name: 10 + at if 10 + at > 500 else 0 for at, name in enumerate(names)}
    assert read() == left | {"t0": 6_000, "t999": 6_000, "new": 5_000}
    note.settle(0, 600)
    assert (read()["new"], read()["t999"], read()["t491"], read()["t490"]) == (600, 600, 501, 0)
