"""Light queues whose files have suffered: verify names them, repair makes them anew."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.features.light_queues import A, B, bodies, light_broker, send
from support.servers.live_broker import live_broker

from aerobee.storage.disk.files import Files
from aerobee.storage.layout import ENTRY_BYTES, LIGHT
from aerobee.storage.parts import StoreParts
from aerobee.storage.proofs.progress import Progress
from aerobee.storage.recovery.light_queues import LightRecovery
from aerobee.storage.repair import repair
from aerobee.storage.settings import StoreSettings
from aerobee.storage.verify import verify

COUNT = 12


def entry_file(store: Path, name: str) -> Path:
    """The only file of a light queue."""
    (path,) = (store / "consumequeue" / name / "0").iterdir()
    return path


def change(store: Path, name: str, at: int, data: bytes) -> None:
    """Write into a light queue's file."""
    with entry_file(store, name).open("r+b") as file:
        file.seek(at)
        file.write(data)


def flip_a_bit(store: Path) -> None:
    """A position is another one."""
    path = entry_file(store, A)
    at = 3 * ENTRY_BYTES + 7
    change(store, A, at, bytes([path.read_bytes()[at] ^ 4]))


def other_tags(store: Path) -> None:
    """A hash of tags is another one."""
    change(store, A, 3 * ENTRY_BYTES + 19, b"\x01")


def twice_the_same(store: Path) -> None:
    """An entry stands in two places, and another one nowhere."""
    data = entry_file(store, A).read_bytes()
    change(store, A, 4 * ENTRY_BYTES, data[3 * ENTRY_BYTES : 4 * ENTRY_BYTES])


def another_queues(store: Path) -> None:
    """An entry leads to a message that is for others."""
    plain = (store / "consumequeue" / "t" / "0").iterdir()
    change(store, A, 4 * ENTRY_BYTES, next(plain).read_bytes()[:ENTRY_BYTES])


def cut_off(store: Path) -> None:
    """The last entries are gone."""
    change(store, A, (COUNT - 3) * ENTRY_BYTES, bytes(3 * ENTRY_BYTES))


def gone(store: Path) -> None:
    """The whole folder is."""
    shutil.rmtree(store / "consumequeue" / A)


def of_another_size(store: Path) -> None:
    """The file is longer than it can be."""
    with entry_file(store, A).open("ab") as file:
        file.write(b"\1" * 7)


@pytest.mark.parametrize(
    "hurt",
    [flip_a_bit, other_tags, twice_the_same, another_queues, cut_off, gone, of_another_size],
    ids=lambda hurt: hurt.__name__,
)
async def test_what_is_hurt_is_named_and_made_anew(
    tmp_path: Path, hurt: Callable[[Path], None]
) -> None:
    """Nothing is said of the other queue, and nothing of it changes."""
    async with light_broker(tmp_path) as live:
        await send(live, b"plain")
        for number in range(COUNT):
            await send(live, b"%d" % number, A, *([B] if number % 2 else []), TAGS="t")
    settings, store = live.broker.settings.store, tmp_path / "store"
    assert not verify(settings).problems
    other = entry_file(store, B).read_bytes()
    hurt(store)
    problems = verify(settings).problems
    assert problems and all(A in line for line in problems), problems
    repair(settings)
    assert not verify(settings).problems
    assert entry_file(store, B).read_bytes() == other
    async with light_broker(tmp_path) as live:
        assert await bodies(live, A) == [b"%d" % number for number in range(COUNT)]
        assert await bodies(live, B) == [b"%d" % number for number in range(1, COUNT, 2)]


class Name(tuple[str, int]):
    """A queue's name that counts what it is compared with."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return super().__eq__(other)

    __hash__ = tuple.__hash__


def test_ten_thousand_are_not_compared_with_each_other(tmp_path: Path) -> None:
    """A start asks of each queue that was proven whether it is still there."""
    names = [f"%LMQ%{number}" for number in range(300)]
    for name in names:
        (tmp_path / "consumequeue" / name / "0").mkdir(parents=True)
    settings = StoreSettings(root=tmp_path, light_queues=True)
    parts = StoreParts.of(Files(), settings, write=False)
    parts.queues.load({})
    proven = Progress(0, 0, {Name((name, 0)): 0 for name in names})
    LightRecovery(parts).run(proven, 0, 0)
    assert Name.compared <= 3 * len(names)
    parts.close()


async def test_what_a_sender_said_itself_is_no_problem(tmp_path: Path) -> None:
    """Stored while the feature was off, a message may claim any offset of any light queue."""
    async with light_broker(tmp_path) as live:
        await send(live, b"one", A)
    async with live_broker(tmp_path) as live:
        await send(live, b"x", A, INNER_MULTI_QUEUE_OFFSET="0")
        await send(live, b"x", B, INNER_MULTI_QUEUE_OFFSET="99999999")
    assert not verify(live.broker.settings.store).problems
    repair(live.broker.settings.store)
    async with light_broker(tmp_path) as live:
        assert await bodies(live, A) == [b"one"]
        assert live.broker.store.find_queue(B, 0) is None


async def test_a_store_without_light_queues_is_not_read_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log is looked at once."""
    async with live_broker(tmp_path) as live:
        await send(live, b"x", A)
    assert not (tmp_path / "store" / LIGHT).exists()
    reads: list[object] = []
    monkeypatch.setattr("aerobee.storage.tools.light_queues.light_records", reads.append)
    assert not verify(live.broker.settings.store).problems
    assert not reads
