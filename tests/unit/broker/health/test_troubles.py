"""A disk that is full, or refuses, is seen where operators look, once, and until it is over."""

import errno
import logging
import re
from asyncio import sleep
from collections.abc import Callable
from pathlib import Path

import pytest
from support.disks.refused_room import refuse_room
from support.disks.small_disk import fill_up, remount, small_disk
from support.servers.live_broker import LiveBroker, live_broker
from support.waiting import until

from aerobee.broker.health.troubles import ROOM_ASKED_MAX, Troubles
from aerobee.remoting.codes import RequestCode, ResponseCode
from aerobee.storage.errors import LogFull


async def until_answer(live: LiveBroker, wanted: int) -> str:
    """Wait until /readyz has a status; return its text."""
    for _ in range(400):
        status, text = await live.get("/readyz")
        if status == wanted:
            return text
        await sleep(0.02)
    pytest.fail(f"/readyz is {status} {text}")


async def writable(live: LiveBroker) -> str:
    """Return the value of the metric."""
    _, text = await live.get("/metrics")
    (line,) = (line for line in text.splitlines() if line.startswith("aerobee_store_writable"))
    return line.rpartition(" ")[2]


async def send(live: LiveBroker, queue_id: int, size: int = 10) -> int:
    """Send one message; return the code of the answer."""
    header = {"a": "p", "b": "t", "c": "TBW102", "d": 8, "e": queue_id, "f": 0, "g": 1, "h": 0}
    reply = await live.ask(RequestCode.SEND_MESSAGE_V2, header, bytes(size))
    return reply.code


def lines(caplog: pytest.LogCaptureFixture, event: str) -> list[logging.LogRecord]:
    """Return what was logged of one kind."""
    return [record for record in caplog.records if record.getMessage().startswith(event)]


async def refused_and_recovered(
    live: LiveBroker,
    caplog: pytest.LogCaptureFixture,
    where: str,
    refuse: Callable[[], None],
    allow: Callable[[], None],
    size: int = 10,
) -> None:
    """Have sends refused for want of room, look at every sign of it, and at its end."""
    await until(lambda: live.broker.http_port, what="HTTP to be served")
    caplog.set_level(logging.INFO, "aerobee")
    assert await send(live, 0) == ResponseCode.SUCCESS
    refuse()
    codes: list[int] = []
    while len(codes) < 40 or ResponseCode.SERVICE_NOT_AVAILABLE not in codes[:-20]:
        codes.append(await send(live, len(codes) % 8, size))
        assert len(codes) < 4_000, "nothing is refused"
        await sleep(0.001)
    first = codes.index(ResponseCode.SERVICE_NOT_AVAILABLE)
    refused = set(codes[first:])
    assert refused == {ResponseCode.SERVICE_NOT_AVAILABLE}, "none is taken until there is room"
    text = await until_answer(live, 503)
    assert "no room: " in text and where in text and "bytes: [Errno " in text
    assert await writable(live) == "0.0"
    (told,) = lines(caplog, "store_refuses")
    assert told.levelno == logging.ERROR
    assert f"path={live.broker.settings.store_path_root_dir}/{where}" in told.getMessage()
    assert "need_bytes=" in told.getMessage()
    assert not lines(caplog, "store_takes_again")
    allow()
    await until_answer(live, 200)
    assert await writable(live) == "1.0"
    (told,) = lines(caplog, "store_takes_again")
    assert told.levelno == logging.INFO
    assert f"refused={codes.count(ResponseCode.SERVICE_NOT_AVAILABLE)}" in told.getMessage()
    assert await send(live, 0, size) == ResponseCode.SUCCESS
    assert await send(live, 7, size) == ResponseCode.SUCCESS
    assert len(lines(caplog, "store_refuses")) == 1


@pytest.mark.parametrize(("where", "size"), [("consumequeue", 10), ("commitlog", 100_000)])
async def test_a_disk_without_room_is_seen(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    size: int,
) -> None:
    """For the files of queues and of the log: 503, the metric, one ERROR, one INFO."""
    async with live_broker(tmp_path, http_port=0) as live:
        files = live.broker.store.files
        full = set[str]()
        refuse_room(monkeypatch, files, errno.ENOSPC, full)
        await refused_and_recovered(live, caplog, where, lambda: full.add(where), full.clear, size)


async def test_a_disk_that_is_full_is_seen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A real one: something else has taken its last byte, and gives it back."""
    with small_disk(tmp_path / "disk", 8) as disk:
        async with live_broker(disk, http_port=0, disk_space_warning_level_ratio=95) as live:
            filler = disk / "something else"
            await refused_and_recovered(
                live, caplog, "consumequeue", lambda: fill_up(filler), filler.unlink
            )


async def test_a_disk_that_is_read_only_is_seen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker that starts on it serves what it has, and says that it takes nothing."""
    with small_disk(tmp_path / "disk", 8) as disk:
        async with live_broker(disk) as live:
            assert await send(live, 0) == ResponseCode.SUCCESS
        remount(disk, "ro")
        async with live_broker(disk, http_port=0) as live:
            await until(lambda: live.broker.http_port, what="HTTP to be served")
            (told,) = (record for record in caplog.records if record.levelno >= logging.ERROR)
            assert told.getMessage().startswith(f"store_read_only path={disk / 'store'} error=")
            assert lines(caplog, "broker_takes_no_messages"), "and that follows from it"
            text = await until_answer(live, 503)
            assert f"store not writable: the store {disk / 'store'} is open for reading" in text
            assert "restart the broker" in text
            assert await writable(live) == "0.0"
            assert await send(live, 0) == ResponseCode.SERVICE_NOT_AVAILABLE
            assert len(lines(caplog, "broker_takes_no_messages")) == 1
            remount(disk, "rw")  # a stop tells by an error that it could not save a table


async def test_a_table_that_cannot_be_saved_is_seen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With the file's name, once, although it is tried every few milliseconds."""
    async with live_broker(tmp_path, http_port=0, flush_consumer_offset_interval=10) as live:
        await until(lambda: live.broker.http_port, what="HTTP to be served")
        caplog.set_level(logging.INFO, "aerobee")
        offsets = live.broker.context.tables.offsets
        obstacle = offsets.file.path.with_name("consumerOffset.json.tmp")
        obstacle.mkdir(parents=True)
        offsets.commit("g", "t", 0, 7)
        text = await until_answer(live, 503)
        assert text.startswith(f"table not saved: {offsets.file.path}: [Errno 21]")
        assert await writable(live) == "0.0"
        await until(lambda: lines(caplog, "table_not_saved"), what="it is told")
        obstacle.rmdir()
        await until_answer(live, 200)
        await until(lambda: lines(caplog, "table_saved_again"), what="its end is told")
        (begin,), (end,) = (lines(caplog, f"table_{what}") for what in ("not_saved", "saved_again"))
        assert (begin.levelno, end.levelno) == (logging.ERROR, logging.INFO)
        for line in (begin, end):
            assert str(offsets.file.path) in line.getMessage()


async def test_a_disk_that_is_fuller_than_allowed_is_seen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first message is refused; the end of it is told, too."""
    async with live_broker(tmp_path) as live:
        caplog.set_level(logging.INFO, "aerobee")
        store, used = live.broker.store, [0.5, 0.99, 0.99, 0.5, 0.5]
        monkeypatch.setattr(store.files, "disk_used_ratio", lambda path: used[0])
        while used:
            store.retention.disk.check()
            del used[0]
        full, room = (lines(caplog, what) for what in ("disk_full", "disk_has_room"))
        assert [record.levelno for record in full] == [logging.ERROR]
        assert [record.levelno for record in room] == [logging.INFO]
        assert f"path={store.settings.log_dir}" in full[0].getMessage()
        found = re.search(r"need_bytes=(\d+)", full[0].getMessage())
        assert found is not None and int(found[1]) > 0, "how much has to go"


async def test_no_end_is_told_while_something_else_refuses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for a queue is no good news on a disk that is fuller than allowed: nothing is taken."""
    async with live_broker(tmp_path) as live:
        caplog.set_level(logging.INFO, "aerobee")
        await send(live, 0)
        store = live.broker.store
        queue, used = store.find_queue("t", 0), [0.99]
        monkeypatch.setattr(store.files, "disk_used_ratio", lambda path: used[0])
        troubles = Troubles(store, lambda: 0.0)
        wanted = LogFull("no room", path=tmp_path / "file", need_bytes=1, queue=queue)
        troubles.met(wanted)
        store.retention.disk.check()
        for _ in range(3):
            troubles.look()
        assert not lines(caplog, "store_takes_again")
        troubles.met(wanted)
        used[0] = 0.5
        store.retention.disk.check()
        for _ in range(3):
            troubles.look()
        (told,) = lines(caplog, "store_takes_again")
        assert "refused=2" in told.getMessage()
        assert len(lines(caplog, "store_refuses")) == 1


async def test_a_deleted_queue_wants_nothing(tmp_path: Path) -> None:
    """To ask for its room would make its files anew."""
    async with live_broker(tmp_path) as live:
        await send(live, 0)
        store = live.broker.store
        queue = store.find_queue("t", 0)
        troubles = Troubles(store, lambda: 0.0)
        folder = store.settings.root / "consumequeue" / "t"
        for number in range(ROOM_ASKED_MAX + 1):
            path = folder / "0" / str(number)
            troubles.met(LogFull("no room", path=path, need_bytes=1, queue=queue))
        await live.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
        await until(lambda: not folder.exists(), what="the topic is gone")
        troubles.look()
        assert troubles.reasons()
        troubles.look()
        assert not troubles.reasons() and not folder.exists()
