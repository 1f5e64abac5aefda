"""The disk of the simulation behaves as disks and Linux do, at their worst."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from aerobee.storage.upkeep.backends import AioBackend, best_backend
from simulation.disk.clock import Clock
from simulation.disk.door import Door
from simulation.disk.folders import scratch
from simulation.disk.kernel import SimulatedKernel
from simulation.disk.machine import Died, Machine
from simulation.disk.pages import PAGE_BYTES, SECTOR_BYTES


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine with an empty disk that keeps no name by itself."""
    with scratch() as folder:
        machine = Machine(folder / "root", 1, Clock())
        machine.journaled = False
        yield machine
        machine.close()


def written(door: Door, name: str, data: bytes, *, sync: bool = False) -> Path:
    """Make a file with some content."""
    path = door.machine.root / name
    fd = door.open(path, create=True)
    door.write(fd, data, 0)
    if sync:
        door.sync(fd)
        door.sync_directory(path.parent)
    door.close(fd)
    return path


def outcomes(machine: Machine, path: Path, count: int = 60) -> set[bytes | None]:
    """Lose power again and again, each time after the same write over a durable file."""
    found: set[bytes | None] = set()
    for _ in range(count):
        door = Door(machine)
        written(door, path.name, b"a" * 2 * PAGE_BYTES, sync=True)
        written(door, path.name, b"b" * 2 * PAGE_BYTES)
        machine.lose_power()
        found.add(path.read_bytes())
    return found


def test_what_was_synced_outlives_power(machine: Machine) -> None:
    """Content needs a sync of the file, a name one of its folder."""
    door = Door(machine)
    kept = written(door, "kept", b"x" * 5000, sync=True)
    for number in range(20):
        written(door, f"new-{number}", b"y")
    machine.lose_power()
    assert kept.read_bytes() == b"x" * 5000
    assert sum(path.name.startswith("new") for path in machine.root.iterdir()) < 20


def test_unsynced_pages_arrive_in_any_subset_and_torn(machine: Machine) -> None:
    """Old, new, one page of two, and sectors of a page: all of it happens."""
    found = outcomes(machine, machine.root / "file")
    assert {b"a" * 2 * PAGE_BYTES, b"b" * 2 * PAGE_BYTES} <= found
    assert b"a" * PAGE_BYTES + b"b" * PAGE_BYTES in found
    halves = [each[:PAGE_BYTES] for each in found if each is not None]
    torn = [page for page in halves if len(set(page)) == 2]
    assert torn
    sectors = {
        page[at : at + SECTOR_BYTES] for page in torn for at in range(0, len(page), SECTOR_BYTES)
    }
    assert sectors <= {b"a" * SECTOR_BYTES, b"b" * SECTOR_BYTES}


def test_a_failed_sync_is_believed_by_the_next_one(machine: Machine) -> None:
    """Linux reports an error once: pages count as clean, a later sync says nothing of them."""
    door = Door(machine)
    path = written(door, "log", b"a" * PAGE_BYTES, sync=True)
    fd = door.open(path)
    door.write(fd, b"b" * PAGE_BYTES, 0)
    machine.weather.syncs_to_fail = 1
    with pytest.raises(OSError) as error:
        door.sync(fd)
    assert error.value.errno == errno.EIO
    assert door.read(fd, 1, 0) == b"b", "memory still has it"
    door.sync(fd)
    assert door.inode(fd).durable == b"a" * PAGE_BYTES
    door.write(fd, b"b" * PAGE_BYTES, 0)
    door.sync(fd)
    machine.lose_power()
    assert path.read_bytes() == b"b" * PAGE_BYTES, "a page that is written again is synced again"


def test_pages_of_a_failed_sync_may_vanish(machine: Machine) -> None:
    """Memory is short: what counts as clean is read anew, through maps, too."""
    door = Door(machine)
    path = written(door, "log", b"a" * PAGE_BYTES, sync=True)
    fd = door.open(path)
    memory = door.map(fd, PAGE_BYTES, write=True)
    memory[:] = b"b" * PAGE_BYTES
    machine.weather.syncs_to_fail = 1
    with pytest.raises(OSError):
        door.sync(fd)
    while memory[:1] == b"b":
        machine.evict()
    assert memory[:] == b"a" * PAGE_BYTES


def test_a_store_through_a_map_is_dirty(machine: Machine) -> None:
    """Maps need no call to change a file: a sync finds what has changed."""
    door = Door(machine)
    path = written(door, "log", bytes(3 * PAGE_BYTES), sync=True)
    fd = door.open(path)
    memory = door.map(fd, 3 * PAGE_BYTES, write=True)
    memory[PAGE_BYTES] = 1
    inode = door.inode(fd)
    assert list(inode.picture().pages) == [1]
    door.sync(fd)
    assert not inode.picture().pages


def test_a_rename_is_one_step(machine: Machine) -> None:
    """The name leads to the old file or to the new one, in every case to one."""
    seen = set()
    for _ in range(40):
        door = Door(machine)
        written(door, "target", b"old", sync=True)
        source = written(door, "source", b"new", sync=True)
        door.replace(source, machine.root / "target")
        machine.lose_power()
        names = sorted(path.name for path in machine.root.iterdir())
        seen.add((tuple(names), (machine.root / "target").read_bytes()))
    assert seen == {(("source", "target"), b"old"), (("target",), b"new")}


def test_a_file_that_moves_between_folders_is_somewhere(machine: Machine) -> None:
    """Before a sync under its old name, under the new one, or under both; never under none."""
    door, seen = Door(machine), set[tuple[bool, bool]]()
    old, new = machine.root / "old", machine.root / "new"
    for folder in (old, new):
        door.make_directory(folder)
    door.sync_directory(machine.root)
    for number in range(60):
        door, name = Door(machine), f"f{number}"
        source = written(door, f"old/{name}", b"moved", sync=True)
        door.replace(source, new / name)
        machine.lose_power()
        seen.add((source.exists(), (new / name).exists()))
    assert (False, False) not in seen
    assert {(True, False), (False, True)} <= seen


@pytest.mark.parametrize("synced", ["from", "to"])
def test_a_move_is_durable_where_its_folder_was_synced(machine: Machine, synced: str) -> None:
    """The old name is gone for good only with its own folder's sync, and the new one there then."""
    door = Door(machine)
    for name in ("from", "to"):
        door.make_directory(machine.root / name)
    door.sync_directory(machine.root)
    source = written(door, "from/file", b"moved", sync=True)
    door.sync_directory(machine.root / "from")
    door.replace(source, machine.root / "to" / "file")
    door.sync_directory(machine.root / synced)
    machine.lose_power()
    assert (machine.root / "to" / "file").read_bytes() == b"moved"
    if synced == "from":
        assert not source.exists()


def test_a_process_dies_between_two_operations(machine: Machine) -> None:
    """The fuse counts operations; the dead do nothing, what they wrote stays in memory."""
    door = Door(machine)
    machine.fuse = 2
    with pytest.raises(Died):
        written(door, "file", b"data", sync=True)
    with pytest.raises(Died):
        door.names(machine.root)
    assert (machine.root / "file").read_bytes() == b"data"
    door.bury()


def test_aio_completes_later_in_any_order(machine: Machine) -> None:
    """The product's own AioBackend, above syncs that take their time each."""
    orders = set()
    for _ in range(20):
        door = Door(machine)
        kernel = SimulatedKernel(door)
        paths = [written(door, f"f{number}", os.urandom(9000)) for number in range(3)]
        fds = [door.open(path) for path in paths]
        lock = door.open(machine.root / "lock", create=True)
        machine.clock.after(0.5, lambda: None)
        backend = AioBackend(door, kernel)
        backend.submit([(fd, token) for token, fd in enumerate(fds)])
        order: list[int] = []
        while len(order) < 3:
            assert machine.clock.step()
            order += [token for token, error in backend.completed() if not error]
        orders.add(tuple(order))
        for fd in (*fds, lock):
            assert not door.inode(fd).picture().pages
            door.close(fd)
        backend.close()
    assert len(orders) > 2


def test_the_store_takes_the_production_backend(machine: Machine) -> None:
    """A door with a kernel gets what production gets, not a backend of tests."""
    door = Door(machine)
    SimulatedKernel(door)
    fd = door.open(machine.root / "lock", create=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aerobee.storage.upkeep.backends.wait_readable", machine.clock.wait_readable)
        backend = best_backend(door, fd)
    assert isinstance(backend, AioBackend)
    backend.close()
