"""Which code serves sends: the choice, the change while a broker runs, and the edges of a run."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.servers.brokers import running_broker, send_command
from support.waiting import until
from support.wire import connect, feed

from aerobee.broker.app import Broker
from aerobee.broker.compiled import choice
from aerobee.broker.compiled.choice import description, is_compiled
from aerobee.broker.writing.hooks import SendEvent
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.frame import encode_frame
from aerobee.remoting.message.batch import BatchedMessage, encode_batch

compiled = pytest.mark.skipif(not is_compiled(), reason="built without a C compiler")

SEND = encode_frame(send_command())
FRAME_BYTES_MAX = 1 << 24


async def make_topic(broker: Broker) -> None:
    """Have the topic made and its checks passed."""
    connection, wire = connect(broker)
    connection.data_received(SEND)
    await until(wire.replies, what="the topic is known")
    await feed(*connect(broker), [SEND])


def run_of(broker: Broker) -> Callable[[bytes, int, int], tuple[int, int]]:
    """Return a short way to call a broker's compiled code."""
    serve = broker.context.front.traffic.sends.serve_run
    assert serve is not None
    stamp = connect(broker)[0].stamp

    def run(data: bytes, at: int, frames_max: int) -> tuple[int, int]:
        return serve(data, at, frames_max, FRAME_BYTES_MAX, stamp.at(0), stamp.sys_flag, [])

    return run


@compiled
async def test_compiled_code_serves_sends_unless_it_is_not_wanted(tmp_path: Path) -> None:
    """The setting takes effect at once, and every message is stored either way."""
    async with running_broker(tmp_path, compiledFastPath="true") as broker:
        await make_topic(broker)
        queue = broker.context.writing.queues.get("T", 0)
        for wanted in (True, False, True):
            broker.live.change(broker.settings.model_copy(update={"compiled_fast_path": wanted}))
            assert (broker.context.front.traffic.sends.serve_run is not None) is wanted
            connection, wire = connect(broker)
            before = queue.stored.max_offset
            await feed(connection, wire, [SEND, SEND * 3])
            assert [reply.code for reply in wire.replies()] == [ResponseCode.SUCCESS] * 4
            assert queue.stored.max_offset - before == 4


async def test_without_a_compiler_python_serves_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installation without compiled code does everything."""
    monkeypatch.setattr(choice, "PlainSends", None)
    assert description(wanted=True).startswith("Python")
    async with running_broker(tmp_path, compiledFastPath="true") as broker:
        assert broker.context.front.traffic.sends.serve_run is None
        await make_topic(broker)
        connection, wire = connect(broker)
        await feed(connection, wire, [SEND * 3])
        assert [reply.code for reply in wire.replies()] == [ResponseCode.SUCCESS] * 3


@compiled
def test_the_description_says_why() -> None:
    """What operators read names the setting where that is the reason."""
    assert description(wanted=True) == "compiled code"
    assert "compiledFastPath=false" in description(wanted=False)


@compiled
async def test_a_run_ends_at_its_last_frame(tmp_path: Path) -> None:
    """It serves no more frames than allowed, and none that is not complete."""
    async with running_broker(tmp_path, compiledFastPath="true") as broker:
        await make_topic(broker)
        run = run_of(broker)
        stored = broker.context.writing.queues.get("T", 0).stored
        before, size = stored.max_offset, len(SEND)
        assert run(SEND * 3, 0, 2) == (2 * size, 2)
        assert run(SEND * 3, 2 * size, 9) == (3 * size, 1)
        for cut in range(1, size):
            assert run(SEND + SEND[:cut], size, 9) == (size, 0)
        assert run(b"", 0, 9) == (0, 0)
        assert run(SEND, 0, 0) == (0, 0)
        for outside in (-1, size + 1):
            with pytest.raises(ValueError, match="outside"):
                run(SEND, outside, 9)
        assert stored.max_offset - before == 3


@compiled
async def test_more_than_a_block_holds_is_served_in_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small messages make records and acknowledgements that are larger than their frames."""
    monkeypatch.setattr("aerobee.storage.queues.consume_queue.TAIL_ENTRIES_MIN", 4096)
    async with running_broker(
        tmp_path, compiledFastPath="true", mappedFileSizeCommitLog="16777216"
    ) as broker:
        await make_topic(broker)
        run = run_of(broker)
        assert run(SEND * 700, 0, 1000) == (len(SEND) * 700, 700)


@compiled
async def test_a_hook_sees_every_message(tmp_path: Path) -> None:
    """What could change a check's outcome takes the topic away from compiled code at once."""
    seen: list[SendEvent] = []
    async with running_broker(tmp_path, compiledFastPath="true") as broker:
        await make_topic(broker)
        broker.hooks.add(before_send=seen.append)
        connection, wire = connect(broker)
        await feed(connection, wire, [SEND * 3])
        assert len(wire.replies()) == len(seen) == 3


@compiled
async def test_a_log_that_takes_nothing_is_told_by_python(tmp_path: Path) -> None:
    """Compiled code declines where the log refuses, and the refusal has its usual words."""
    async with running_broker(tmp_path, compiledFastPath="true") as broker:
        await make_topic(broker)
        broker.store.commit_log.set_disk_full(True)
        run = run_of(broker)
        assert run(SEND, 0, 9) == (0, 0)
        connection, wire = connect(broker)
        await feed(connection, wire, [SEND])
        assert [reply.code for reply in wire.replies()] == [ResponseCode.SERVICE_NOT_AVAILABLE]


@compiled
async def test_a_log_that_takes_nothing_takes_nothing_of_a_batch(tmp_path: Path) -> None:
    """Neither where it refuses nor where it has room for a part alone."""
    message = BatchedMessage(0, b"x" * 1000, b"TAGS\x01a\x02")
    batch = encode_frame(send_command(encode_batch([message] * 8), code=320, m="true"))
    async with running_broker(tmp_path, compiledFastPath="true") as broker:
        await make_topic(broker)
        run, log = run_of(broker), broker.store.commit_log
        stored = broker.context.writing.queues.get("T", 0).stored
        log.set_disk_full(True)
        assert run(batch, 0, 9) == (0, 0)
        log.set_disk_full(False)
        assert run(batch * 2, 0, 9) == (2 * len(batch), 2)
        before, end = stored.max_offset, log.position
        log._limit = log.position + 3 * 1000
        entries = bytes(stored.buffer)
        assert run(batch, 0, 9) == (0, 0)
        assert (stored.max_offset, log.position) == (before, end)
        assert bytes(stored.buffer) == entries
        log._limit = log.position + 8 * 1200
        bad = encode_batch([message] * 7 + [BatchedMessage(0, b"x", b"DELAY\x013\x02")])
        assert run(encode_frame(send_command(bad, code=320, m="true")), 0, 9) == (0, 0)
        assert bytes(stored.buffer) == entries, "no entry is left of messages that do not count"
        log._set_limit()


@compiled
async def test_runtime_information_tells_which_code_serves(tmp_path: Path) -> None:
    """Operators can find out without trying."""
    from aerobee.broker.processors.runtime_info import runtime_info

    async with running_broker(tmp_path, compiledFastPath="false") as broker:
        assert "compiledFastPath=false" in runtime_info(broker.context)["fastPathServedBy"]
